-- forgettable: tombstones whose time is over, oldest first.
SELECT key FROM intents
WHERE settled_at < ?1 AND expired = 1
ORDER BY settled_at, key
LIMIT ?2
