-- due: rows to be checked or told of by now, the longest overdue first. Each look goes
-- along its index no further than it must.
SELECT
  key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
  status, retry, retry_after, reason, expired, fence, version, claim_id, attempts, executions,
  created_at, started_at, settle_by, unknown_since, settled_at, settled_by, evidence, traceparent, replica, region,
  outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256,
  next_check, parked, notify_at, notices, checks, approved_by, doubt, template, sealed
FROM intents
WHERE key IN (
    (SELECT key FROM intents WHERE next_check <= $1 ORDER BY next_check, key LIMIT $2)
    UNION
    (SELECT key FROM intents WHERE notify_at <= $1 ORDER BY notify_at, key LIMIT $2))
ORDER BY least(next_check, notify_at), key
LIMIT $2
