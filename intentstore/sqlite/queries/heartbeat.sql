-- heartbeat: a write that must reach the disk.
UPDATE heartbeat SET at = at + 1 WHERE one = 1
