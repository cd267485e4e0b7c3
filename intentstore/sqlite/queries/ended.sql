-- ended: keeps an execution that a later one supersedes, in the transaction of that move.
INSERT INTO executions (key, fence, claim_id, started_at, ended_at, status, retry, reason, http_status, traceparent, replica, region)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT DO NOTHING
