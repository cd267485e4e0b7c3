-- archive: stores a batch of receipts that had no row (a hot tool's). Returns the keys that
-- were written; an existing row is never changed.
INSERT INTO intents
  (key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
   status, retry, retry_after, reason, expired, fence, version, claim_id, attempts, executions,
   created_at, started_at, settle_by, unknown_since, settled_at, settled_by, evidence, traceparent, replica, region,
   outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256,
   next_check, parked, notify_at, notices, checks, approved_by, doubt, template, sealed)
SELECT *
FROM unnest
  ($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[], $11::bytea[],
   $12::text[], $13::text[], $14::bigint[], $15::text[], $16::boolean[], $17::bigint[], $18::bigint[], $19::bytea[], $20::integer[], $21::integer[],
   $22::timestamptz[], $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::text[], $28::bytea[], $29::text[], $30::text[], $31::text[],
   $32::integer[], $33::bytea[], $34::bytea[], $35::boolean[], $36::bigint[], $37::text[],
   $38::timestamptz[], $39::text[], $40::timestamptz[], $41::integer[], $42::integer[], $43::bytea[], $44::text[], $45::text[], $46::bytea[])
ON CONFLICT DO NOTHING
RETURNING key
