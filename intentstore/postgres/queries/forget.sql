-- forget: deletes tombstones whose time is over, oldest first. Returns their keys.
DELETE FROM intents
WHERE key IN (
    SELECT key FROM intents
    WHERE settled_at < $1 AND expired
    ORDER BY settled_at, key
    LIMIT $2)
  AND settled_at < $1 AND expired
RETURNING key
