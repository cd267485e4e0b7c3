-- Extends one lease, or writes the holder's record anew where it is gone (flushed, failed
-- over).
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- ARGV[1]  the first 99 bytes of the holder's record
-- ARGV[2]  lease in ms
-- ARGV[3]  tail
-- Touches  KEYS[1]: reads; writes without expiry
-- Returns  {code, now in ms}
local LOST, RENEWED, REWRITTEN = 0, 1, 2
local STARTED = '2'

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = string.format('%013d', now + ARGV[2])
local cur = redis.call('GET', KEYS[1])

if not cur then
  redis.call('SET', KEYS[1], ARGV[1] .. deadline .. ARGV[3])
  return {REWRITTEN, now}
end
if string.sub(cur, 1, 1) ~= '1' then
  return redis.error_reply('VERSION the record was written by another version')
end
if string.sub(cur, 2, 2) == STARTED and string.sub(cur, 84, 99) == string.sub(ARGV[1], 84, 99) then
  redis.call('SET', KEYS[1], string.sub(cur, 1, 99) .. deadline .. string.sub(cur, 113))
  return {RENEWED, now}
end
return {LOST, now}
