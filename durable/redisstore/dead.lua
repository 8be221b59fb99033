-- Lists dead timers, those that died first first.
--
-- ARGV: how many to leave out, how many at most.
-- Returns how many there are, and five values for each one listed: name, when it
-- died, attempts, last error, payload.
local skip, max = tonumber(ARGV[1]), tonumber(ARGV[2])
local enough, size = 256 * 1024, 0 -- as in a claim

local list = {}
for _, name in ipairs(redis.call('ZRANGE', dead, skip, skip + max - 1)) do
  local raw = redis.call('HGET', timers, name)
  local r = decode(raw)
  if not r then
    r = lost(raw)
    redis.call('HSET', timers, name, encode(r))
  end
  if r.state == 'd' then
    for _, value in ipairs({name, r.look, r.attempts, r.error, r.payload}) do list[#list + 1] = value end
    size = size + #r.payload
    if size > enough then break end
  else
    redis.call('ZREM', dead, name) -- it was put anew after its record was lost
  end
end
local reply = {redis.call('ZCARD', dead)}
for i = 1, #list do reply[#reply + 1] = list[i] end
return reply
