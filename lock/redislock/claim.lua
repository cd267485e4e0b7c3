-- Takes a guard for an ask, atomically. It says what lock.Judge says.
--
-- KEYS[1]  the guard's record (record.go has its layout)
-- ARGV[1]  key, 32 bytes          ARGV[4]  lease in ms
-- ARGV[2]  fingerprint, 32 bytes  ARGV[5]  flags digit of a new record
-- ARGV[3]  claim id, 16 bytes     ARGV[6]  tail of a new record
-- Touches  KEYS[1]: reads; writes without expiry when it takes the guard
-- Returns  {code, now in ms, record that stands; its fence alone, 15 digits, when it is new}
--          now is 0 when no lease is to be told from it
local CLAIMED, HELD, SETTLED, UNKNOWN, AWAITING, MISMATCH, STEP_CONFLICT = 1, 2, 3, 4, 5, 6, 7
local AWAITING_APPROVAL, STARTED, LOST, REJECTED = '1', '2', '3', '5'
local RETRY_SAME_KEY = '2'

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function take(fence)
  local now = clock()
  fence = string.format('%015d', fence)
  redis.call('SET', KEYS[1], '1' .. STARTED .. '0' .. ARGV[5] .. fence .. ARGV[1] .. ARGV[2] .. ARGV[3]
    .. string.format('%013d', now + ARGV[4]) .. ARGV[6])
  return {CLAIMED, now, fence}
end

local cur = redis.call('GET', KEYS[1])
if not cur then
  return take(1)
end
if string.sub(cur, 1, 1) ~= '1' then
  return redis.error_reply('VERSION the record was written by another version')
end

local status = string.sub(cur, 2, 2)
local same_key = string.sub(cur, 20, 51) == ARGV[1]
local same_call = same_key and string.sub(cur, 52, 83) == ARGV[2]

local function answer(code)
  return {code, status == STARTED and clock() or 0, cur}
end

if status == REJECTED then
  if not same_key then
    return take(1)
  end
  -- Flags '0': neither durable nor hot, so nobody but this record knows of the rejection.
  if same_call and string.sub(cur, 4, 4) == '0' then
    return answer(SETTLED)
  end
  if not same_call or string.sub(cur, 3, 3) == RETRY_SAME_KEY then
    return take(tonumber(string.sub(cur, 5, 19)) + 1)
  end
  return answer(SETTLED)
end

if not same_key then
  return answer(STEP_CONFLICT)
elseif not same_call then
  return answer(MISMATCH)
elseif status == STARTED and string.sub(cur, 84, 99) == ARGV[3] then
  return answer(CLAIMED)
elseif status == STARTED then
  return answer(HELD)
elseif status == LOST then
  return answer(UNKNOWN)
elseif status == AWAITING_APPROVAL then
  return answer(AWAITING)
end
return answer(SETTLED)
