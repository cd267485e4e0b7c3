-- list: one page of a tenant's rows, newest first; a NULL does not narrow. The search (?10
-- to ?13) matches a range of keys, or a trace of the execution or of an arrival, or all of
-- its words (a JSON array) in run, step, arguments or result (unless that
-- holds NUL: then it is no text).
SELECT
  key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
  status, retry, retry_after, reason, expired, fence, version, claim_id, attempts, executions,
  created_at, started_at, settle_by, unknown_since, settled_at, settled_by, evidence, traceparent, replica, region,
  outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256,
  next_check, parked, notify_at, notices, checks, approved_by, doubt, template, sealed
FROM intents
WHERE tenant = ?1
  AND (?2 IS NULL OR run_id = ?2)
  AND (?3 IS NULL OR step_id = ?3)
  AND (?4 IS NULL OR tool = ?4)
  AND (?5 IS NULL OR status = ?5)
  AND (?15 IS NULL OR attention = 1)
  AND (?6 IS NULL OR created_at >= ?6)
  AND (?7 IS NULL OR created_at < ?7)
  AND (?8 IS NULL OR created_at < ?8 OR created_at = ?8 AND key > ?9)
  AND (?10 IS NULL
    OR key BETWEEN ?11 AND ?12
    OR substr(traceparent, 4, 32) = ?13
    OR key IN (SELECT a.key FROM attempts a WHERE a.trace_id = ?13)
    OR NOT EXISTS (
      SELECT 1 FROM json_each(?10) AS word
      WHERE instr(lower(run_id), word.value) = 0
        AND instr(lower(step_id), word.value) = 0
        AND instr(lower(CAST(coalesce(args, '') AS TEXT)), word.value) = 0
        AND (instr(coalesce(outcome_body, ''), x'00') > 0
          OR instr(CAST(lower(CAST(coalesce(outcome_body, '') AS TEXT)) AS BLOB), CAST(word.value AS BLOB)) = 0)))
ORDER BY created_at DESC, key
LIMIT ?14
