-- begin: the write-ahead of a batch of intents, one statement and one commit for all.
-- Returns the keys that were written; a row whose key or guard is taken, also by an earlier
-- row of the batch, is left out and read by a second statement.
INSERT INTO intents
  (key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
   status, retry, retry_after, reason, fence, version, claim_id, attempts, executions,
   created_at, started_at, settle_by, traceparent, replica, region, next_check, notify_at, template, sealed)
SELECT *
FROM unnest
  ($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[], $11::bytea[],
   $12::text[], $13::text[], $14::bigint[], $15::text[], $16::bigint[], $17::bigint[], $18::bytea[], $19::integer[], $20::integer[],
   $21::timestamptz[], $22::timestamptz[], $23::timestamptz[], $24::text[], $25::text[], $26::text[],
   $27::timestamptz[], $28::timestamptz[], $29::text[], $30::bytea[])
ON CONFLICT DO NOTHING
RETURNING key
