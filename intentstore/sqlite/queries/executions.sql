-- executions: those that a later execution has superseded, oldest first.
SELECT key, fence, claim_id, started_at, ended_at, status, retry, reason, http_status, traceparent, replica, region
FROM executions
WHERE key = ?1
ORDER BY fence
