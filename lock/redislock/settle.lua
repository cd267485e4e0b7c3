-- Copies a state into the record if it supersedes what stands there, and tells watchers.
-- It says what lock.Supersedes says.
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- ARGV[1]  the first 99 bytes of the state
-- ARGV[2]  its tail
-- ARGV[3]  what is left of the lease in ms, while started
-- ARGV[4]  how long the record lives in ms; 0: until another settle
-- Touches  KEYS[1]: reads; writes, with an expiry if one is given; publishes to the channel
--          of the same name
-- Returns  {code, now in ms, record that stands; '' when it is the one given}
local KEPT, WROTE, REFILLED = 0, 1, 2
local AWAITING_APPROVAL, STARTED, LOST, REJECTED = '1', '2', '3', '5'

local function rank(rec)
  local status = string.sub(rec, 2, 2)
  if status == AWAITING_APPROVAL then
    return 0
  elseif status == STARTED then
    return 1
  elseif status == LOST then
    return 2
  end
  local flags = string.sub(rec, 4, 4)
  if flags == '1' or flags == '3' then -- durable
    return 4
  end
  return 3
end

local function supersedes(cur, rec)
  if string.sub(cur, 20, 51) ~= string.sub(rec, 20, 51) then
    return string.sub(cur, 2, 2) == REJECTED
  end
  local old, new = tonumber(string.sub(cur, 5, 19)), tonumber(string.sub(rec, 5, 19))
  if old ~= new then
    return old < new
  end
  return rank(cur) < rank(rec)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cur = redis.call('GET', KEYS[1])

if cur then
  if string.sub(cur, 1, 1) ~= '1' then
    return redis.error_reply('VERSION the record was written by another version')
  end
  if not supersedes(cur, ARGV[1]) then
    return {KEPT, now, cur}
  end
end

local rec = ARGV[1] .. ARGV[2]
if string.sub(rec, 2, 2) == STARTED then
  rec = ARGV[1] .. string.format('%013d', now + ARGV[3]) .. ARGV[2]
end
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], rec)
else
  redis.call('SET', KEYS[1], rec, 'PX', ARGV[4])
end
redis.call('PUBLISH', KEYS[1], '')
if cur then
  return {WROTE, now, ''}
end
return {REFILLED, now, ''}
