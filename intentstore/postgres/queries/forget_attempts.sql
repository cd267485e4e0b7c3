-- forget_attempts: the arrivals of forgotten keys.
DELETE FROM attempts WHERE key = ANY ($1::bytea[])
