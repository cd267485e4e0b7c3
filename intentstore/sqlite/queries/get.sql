-- get: one row.
SELECT
  key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
  status, retry, retry_after, reason, expired, fence, version, claim_id, attempts, executions,
  created_at, started_at, settle_by, unknown_since, settled_at, settled_by, evidence, traceparent, replica, region,
  outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256,
  next_check, parked, notify_at, notices, checks, approved_by, doubt, template, sealed
FROM intents
WHERE key = ?1
