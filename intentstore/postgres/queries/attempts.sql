-- attempts: the newest arrivals of a key, newest first.
SELECT key, tenant, tool, at, decision, trace_id, span_id, replica, region, credential
FROM attempts
WHERE key = $1
ORDER BY at DESC, id DESC
LIMIT $2
