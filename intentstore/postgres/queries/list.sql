-- list: one page of a tenant's rows, newest first; a NULL does not narrow. The search ($10 to $13)
-- matches a range of keys, or a trace of the execution or of an arrival, or all of its words
-- in run, step, arguments or result. Bytes of a result become characters one by one, so that any
-- may come; only NUL cannot, and a result that holds it is no text.
SELECT
  key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
  status, retry, retry_after, reason, expired, fence, version, claim_id, attempts, executions,
  created_at, started_at, settle_by, unknown_since, settled_at, settled_by, evidence, traceparent, replica, region,
  outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256,
  next_check, parked, notify_at, notices, checks, approved_by, doubt, template, sealed
FROM intents i
WHERE tenant = $1
  AND ($2::text IS NULL OR run_id = $2)
  AND ($3::text IS NULL OR step_id = $3)
  AND ($4::text IS NULL OR tool = $4)
  AND ($5::text IS NULL OR status = $5)
  AND ($15::boolean IS NULL OR attention)
  AND ($6::timestamptz IS NULL OR created_at >= $6)
  AND ($7::timestamptz IS NULL OR created_at < $7)
  AND ($8::timestamptz IS NULL OR created_at < $8 OR created_at = $8 AND key > $9::bytea)
  AND ($10::text[] IS NULL
    OR key BETWEEN $11::bytea AND $12::bytea
    OR split_part(traceparent, '-', 2) = $13::text
    OR key = ANY (ARRAY(SELECT a.key FROM attempts a WHERE a.trace_id = $13::text))
    OR NOT EXISTS (
      SELECT FROM unnest($10::text[]) AS word
      WHERE strpos(translate(run_id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), word) = 0
        AND strpos(translate(step_id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), word) = 0
        AND strpos(translate(convert_from(coalesce(args, ''), 'UTF8'), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), word) = 0
        AND coalesce(strpos(
          translate(CASE WHEN position('\x00'::bytea IN outcome_body) = 0 THEN convert_from(outcome_body, 'LATIN1') END, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'),
          convert_from(convert_to(word, 'UTF8'), 'LATIN1')), 0) = 0))
ORDER BY created_at DESC, key
LIMIT $14
