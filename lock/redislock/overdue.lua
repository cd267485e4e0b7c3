-- Lists the guards of one shard of the open index that are at least so old, oldest first.
--
-- KEYS[1]  one shard of the open index
-- ARGV[1]  age in ms
-- ARGV[2]  how many at most
-- Touches  KEYS[1]: reads
-- Returns  {guard, since when in ms, guard, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - ARGV[1]), 'WITHSCORES', 'LIMIT', 0, ARGV[2])
