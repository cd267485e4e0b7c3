-- expire: turns settled rows past their retention into tombstones, but
-- not those that somebody has to look at for a doubt. The outer condition is
-- repeated because the row may have moved (a rejected key acting again) since it was picked.
UPDATE intents SET
  args = convert_to('null', 'UTF8'), evidence = NULL, sealed = NULL, expired = true, version = version + 1,
  outcome_status = NULL, outcome_headers = NULL, outcome_body = NULL, outcome_truncated = false, outcome_length = 0, outcome_sha256 = ''
WHERE key IN (
    SELECT key FROM intents
    WHERE settled_at < $1 AND NOT expired AND doubt IS NULL
    ORDER BY settled_at, key
    LIMIT $2)
  AND settled_at < $1 AND NOT expired AND doubt IS NULL
