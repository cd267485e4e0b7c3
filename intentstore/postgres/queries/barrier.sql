-- barrier: an acknowledged write to a row whose own commit was not acknowledged. Commits are
-- durable in order, so once this one is, that one is. It changes nothing that is shown, and
-- only if the row still is as it was read.
UPDATE intents SET barriers = barriers + 1
WHERE key = $1 AND fence = $2 AND version = $3 AND claim_id = $4
