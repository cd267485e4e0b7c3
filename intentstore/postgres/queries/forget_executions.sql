-- forget_executions: the executions of forgotten keys.
DELETE FROM executions WHERE key = ANY ($1::bytea[])
