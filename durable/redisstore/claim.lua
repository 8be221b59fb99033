-- Leases timers whose time has come.
--
-- ARGV: how many at most, the lease in microseconds, the token, and where to go on
-- with the repair (0: at its beginning).
-- Returns the time in microseconds, the earliest score (0: there is none), where to
-- go on with the repair (empty: nothing is amiss), and five values for each claimed
-- timer: name, due time, attempt, last error, payload.
local max, token, cursor = tonumber(ARGV[1]), ARGV[3], ARGV[4]
local ending = after(ARGV[2])

-- A script that takes large payloads stops early: others wait while it runs.
local enough = 256 * 1024

local hset, addLive, remLive, addDead = {'HSET', timers}, {'ZADD', live}, {'ZREM', live}, {'ZADD', dead}
local found, size = {}, 0
local due = redis.call('ZRANGEBYSCORE', live, '-inf', math.floor(now / 1000), 'LIMIT', 0, max)
for _, name in ipairs(due) do
  local raw = redis.call('HGET', timers, name)
  local r = decode(raw)
  if not r or r.state == 'd' then
    if not r then
      r = lost(raw)
      push(hset, name, encode(r))
    end
    push(addDead, r.look, name)
    push(remLive, name)
  else
    r.state, r.token, r.look, r.attempts = 'f', token, ending, r.attempts + 1
    push(hset, name, encode(r))
    push(addLive, ending, name)
    push(found, name, r.due)
    push(found, r.attempts, r.error)
    found[#found + 1] = r.payload
    size = size + #r.payload
    if size > enough then break end
  end
end
unfetter()
write(hset)
write(addLive)
write(remLive)
write(addDead)

-- Each timer is in just one index. If there are more timers than that, an index was
-- deleted or is older than the hash: put back what is missing, some at each claim.
local function repair()
  if redis.call('HLEN', timers) <= redis.call('ZCARD', live) + redis.call('ZCARD', dead) then return '' end
  local page = redis.call('HSCAN', timers, cursor, 'COUNT', 100)
  for i = 1, #page[2], 2 do
    local name, raw = page[2][i], page[2][i + 1]
    local r = decode(raw)
    if not r then
      r = lost(raw)
      redis.call('HSET', timers, name, encode(r))
    end
    redis.call('ZADD', r.state == 'd' and dead or live, 'NX', r.look, name)
  end
  return page[1]
end

local progress = repair()
local reply = {now, first() or 0, progress}
for i = 1, #found do reply[#reply + 1] = found[i] end
return reply
