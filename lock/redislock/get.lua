-- Reads a record, and Redis' clock to tell what is left of its lease.
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- Touches  KEYS[1]: reads
-- Returns  {code, now in ms, record or ''}
local NONE, FOUND = 0, 1

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cur = redis.call('GET', KEYS[1])

if not cur then
  return {NONE, now, ''}
end
return {FOUND, now, cur}
