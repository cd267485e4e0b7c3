-- Copies a state into the record if it supersedes what stands there, and tells watchers.
-- It says what lock.Supersedes says.
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- ARGV[1]  the state as a record; the deadline of a started one is put in here
-- ARGV[2]  what is left of the lease in ms, while started
-- ARGV[3]  how long the record lives in ms; 0: until another settle
-- Touches  KEYS[1]: reads; writes, with an expiry if one is given; publishes to the channel
--          of the same name
-- Returns  {code, now in ms or 0, record that stands; '' when it is the one given}
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

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local cur = redis.call('GET', KEYS[1])
if cur then
  if string.sub(cur, 1, 1) ~= '1' then
    return redis.error_reply('VERSION the record was written by another version')
  end
  if not supersedes(cur, ARGV[1]) then
    return {KEPT, clock(), cur}
  end
end

local rec = ARGV[1]
if string.sub(rec, 2, 2) == STARTED then
  rec = string.sub(rec, 1, 99) .. string.format('%013d', clock() + ARGV[2]) .. string.sub(rec, 113)
end
if ARGV[3] == '0' then
  redis.call('SET', KEYS[1], rec)
else
  redis.call('SET', KEYS[1], rec, 'PX', ARGV[3])
end
redis.call('PUBLISH', KEYS[1], '')
if cur then
  return {WROTE, 0, ''}
end
return {REFILLED, clock(), ''}
