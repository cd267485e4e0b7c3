-- audit: the newest entries of a key, newest first.
SELECT id, key, tenant, tool, at, actor, action, reason, before, after, evidence, traceparent
FROM audit
WHERE key = ?1
ORDER BY id DESC
LIMIT ?2
