-- entries: a tenant's entries of the audit after an id.
SELECT id, at, key, tool, action FROM audit
WHERE id > $2 AND tenant = $1
ORDER BY id
LIMIT $3
