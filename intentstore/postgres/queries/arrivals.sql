-- arrivals: a tenant's arrivals after an id.
SELECT id, at, key, tool, decision FROM attempts
WHERE id > $2 AND tenant = $1
ORDER BY id
LIMIT $3
