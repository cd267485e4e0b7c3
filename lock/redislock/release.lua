-- Removes a started record if it belongs to the claim, and tells watchers.
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- ARGV[1]  claim id, 16 bytes
-- Touches  KEYS[1]: reads; removes; publishes to the channel of the same name
-- Returns  {code, now in ms}
local NOTHING, RELEASED, ANOTHERS = 0, 1, 2
local STARTED = '2'

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cur = redis.call('GET', KEYS[1])

if not cur then
  return {NOTHING, now}
end
if string.sub(cur, 1, 1) ~= '1' then
  return redis.error_reply('VERSION the record was written by another version')
end
if string.sub(cur, 2, 2) == STARTED and string.sub(cur, 84, 99) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], '')
  return {RELEASED, now}
end
return {ANOTHERS, now}
