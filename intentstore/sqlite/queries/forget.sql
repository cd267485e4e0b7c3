-- forget: deletes one tombstone.
DELETE FROM intents WHERE key = ?1 AND expired = 1
