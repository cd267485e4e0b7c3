-- forget_attempts: the arrivals of a forgotten key.
DELETE FROM attempts WHERE key = ?1
