-- replace: writes a row in the place of what it was ($1 to $11: key, and all that may have
-- changed meanwhile), keeps the execution that it supersedes ($45 to $55; a fence of 0: there
-- is none), and adds the entry ($56 to $65; an action of NULL: none) and its count ($66, $67).
-- One statement, so all of it is written or nothing.
WITH moved AS (
  UPDATE intents SET
    status = $12, retry = $13, retry_after = $14, reason = $15, expired = $16, fence = $17,
    version = $18, claim_id = $19, executions = $20, started_at = $21, settle_by = $22, unknown_since = $23,
    settled_at = $24, settled_by = $25, evidence = $26, traceparent = $27, replica = $28, region = $29,
    outcome_status = $30, outcome_headers = $31, outcome_body = $32, outcome_truncated = $33, outcome_length = $34, outcome_sha256 = $35,
    next_check = $36, parked = $37, notify_at = $38, notices = $39, checks = $40, approved_by = $41,
    doubt = $42, template = $43, sealed = $44
  WHERE key = $1 AND status = $2 AND fence = $3 AND version = $4 AND checks = $5 AND notices = $6
    AND next_check IS NOT DISTINCT FROM $7 AND notify_at IS NOT DISTINCT FROM $8
    AND parked IS NOT DISTINCT FROM $9 AND doubt IS NOT DISTINCT FROM $10 AND approved_by IS NOT DISTINCT FROM $11
  RETURNING key
), ended AS (
  INSERT INTO executions (key, fence, claim_id, started_at, ended_at, status, retry, reason, http_status, traceparent, replica, region)
  SELECT key, $45::bigint, $46::bytea, $47::timestamptz, $48::timestamptz, $49::text, $50::text, $51::text, $52::integer, $53::text, $54::text, $55::text
  FROM moved
  WHERE $45::bigint >= 1
  ON CONFLICT DO NOTHING
), entered AS (
  INSERT INTO audit (key, tenant, tool, at, actor, action, reason, before, after, evidence, traceparent)
  SELECT key, $56::text, $57::text, $58::timestamptz, $59::text, $60::text, $61::text, $62::text, $63::text, $64::bytea, $65::text
  FROM moved
  WHERE $60::text IS NOT NULL
), counted AS (
  INSERT INTO counts (tenant, minute, tool, kind, word, n)
  SELECT $56::text, $66::bigint, $57::text, $67::text, $60::text, 1
  FROM moved
  WHERE $60::text IS NOT NULL
  ON CONFLICT (tenant, minute, tool, kind, word) DO UPDATE SET n = counts.n + excluded.n
)
SELECT count(*) FROM moved
