-- forget_executions: the executions of a forgotten key.
DELETE FROM executions WHERE key = ?1
