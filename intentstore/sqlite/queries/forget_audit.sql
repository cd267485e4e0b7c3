-- forget_audit: the entries of a forgotten key.
DELETE FROM audit WHERE key = ?1
