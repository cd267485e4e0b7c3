-- again: a rejected key acts again. The new row was made by intent.Receipt.ApplyAgain; the
-- conditions repeat intent.MayRunAgain, and fence and version say that the row is still the
-- one it was made from. The ended execution ($31 to $41; a fence of 0: there was none) is kept
-- in the same statement, so either both are written or neither. The unique guard index
-- refuses it (23505) where another key holds the guard by now.
WITH moved AS (
  UPDATE intents SET
    guard = $2, fingerprint = $3, tenant = $4, tool = $5, class = $6, durability = $7, run_id = $8, step_id = $9, occurrence = $10, args = $11,
    status = $12, retry = $13, retry_after = $14, reason = $15, fence = $16, version = $17, claim_id = $18, attempts = $19, executions = $20,
    started_at = $21, settle_by = $22, traceparent = $23, replica = $24, region = $25,
    next_check = $26, notify_at = $27, template = $28, sealed = $29,
    parked = NULL, notices = 0, checks = 0, approved_by = NULL,
    expired = false, unknown_since = NULL, settled_at = NULL, settled_by = '', evidence = NULL,
    outcome_status = NULL, outcome_headers = NULL, outcome_body = NULL, outcome_truncated = false, outcome_length = 0, outcome_sha256 = ''
  WHERE key = $1 AND status = 'rejected' AND version = $30 AND (retry = 'same_key' OR fingerprint <> $3)
  RETURNING key
), ended AS (
  INSERT INTO executions (key, fence, claim_id, started_at, ended_at, status, retry, reason, http_status, traceparent, replica, region)
  SELECT key, $31::bigint, $32::bytea, $33::timestamptz, $34::timestamptz, $35::text, $36::text, $37::text, $38::integer, $39::text, $40::text, $41::text
  FROM moved
  WHERE $31::bigint >= 1
  ON CONFLICT DO NOTHING
)
SELECT count(*) FROM moved
