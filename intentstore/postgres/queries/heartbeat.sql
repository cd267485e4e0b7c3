-- heartbeat: a write that must be acknowledged; refused by a standby (25006).
UPDATE heartbeat SET at = now() WHERE one = 1 AND NOT pg_is_in_recovery()
