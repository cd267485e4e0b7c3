-- Removes a started record if it belongs to the claim, and tells watchers.
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- ARGV[1]  claim id, 16 bytes
-- Touches  KEYS[1]: reads; removes; publishes to the channel of the same name
-- Returns  {code, now in ms or 0}
--          ANOTHERS stands and belongs into the open index; NOTHING does not
local NOTHING, RELEASED, ANOTHERS = 0, 1, 2
local STARTED, COMPLETED, REJECTED = '2', '4', '5'

local cur = redis.call('GET', KEYS[1])
if not cur then
  return {NOTHING, 0}
end
if string.sub(cur, 1, 1) ~= '1' then
  return redis.error_reply('VERSION the record was written by another version')
end
local status, flags = string.sub(cur, 2, 2), string.sub(cur, 4, 4)
if status == STARTED and string.sub(cur, 84, 99) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], '')
  return {RELEASED, 0}
end
if (status == COMPLETED or status == REJECTED) and (flags == '1' or flags == '3') then -- durable
  return {NOTHING, 0}
end
local time = redis.call('TIME')
return {ANOTHERS, time[1] * 1000 + math.floor(time[2] / 1000)}
