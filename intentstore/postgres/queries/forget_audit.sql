-- forget_audit: the entries of forgotten keys.
DELETE FROM audit WHERE key = ANY ($1::bytea[])
