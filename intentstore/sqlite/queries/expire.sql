-- expire: turns settled rows past their retention into tombstones, but not
-- those that somebody has to look at for a doubt.
UPDATE intents SET
  args = CAST('null' AS BLOB), evidence = NULL, sealed = NULL, expired = 1, version = version + 1,
  outcome_status = NULL, outcome_headers = NULL, outcome_body = NULL, outcome_truncated = 0, outcome_length = 0, outcome_sha256 = ''
WHERE key IN (
  SELECT key FROM intents
  WHERE settled_at < ?1 AND expired = 0 AND doubt IS NULL
  ORDER BY settled_at, key
  LIMIT ?2)
