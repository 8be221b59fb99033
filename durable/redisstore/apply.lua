-- Carries out operations, each as durable.Store says.
--
-- ARGV: the channel for hints, the number of the shard, and for each operation its
-- kind, the name of the timer and what the kind takes: see the transitions below.
-- Returns one status for each and, last, the new earliest score if it became
-- earlier, else 0.
local Created, Replaced, Exists, InFlight, Dead, Canceled, NotFound, Done, Stale = 1, 2, 3, 4, 5, 6, 7, 8, 9

-- The records are read when first needed, changed here, and written at the end.
local records = {} -- name -> record, or false if there is none
local before = {} -- name -> p, f, d or false: the state when it was read
local touched = {} -- the names, in order
local growing = false -- whether something is added

-- put is Put and PutNew. r is the record that is there, if any.
local function put(r, name, delay, id, payload, replace)
  if r then
    if r.state == 'p' and r.id == id and id ~= '' then return Created end
    if not replace then return r.state == 'p' and Exists or r.state == 'f' and InFlight or Dead end
  end
  local look = after(delay)
  records[name] = {state = 'p', look = look, due = look, attempts = 0, id = id, token = '', error = '', payload = payload}
  growing = true
  return r and Replaced or Created
end

-- pend makes a timer pending, due after delay.
local function pend(r, delay)
  r.state, r.token = 'p', ''
  r.look = after(delay)
  r.due = r.look
  return Done
end

-- transition carries out one operation on the record r of a timer, or false. It returns
-- the status, and how many arguments the operation has (a, b, c, d).
local function transition(kind, name, r, a, b, c, d)
  if kind == 'Put' or kind == 'PutNew' then -- delay, id, payload
    return put(r, name, a, b, c, kind == 'Put'), 3

  elseif kind == 'Cancel' then
    if not r then return NotFound, 0 end
    records[name] = false
    return r.state == 'f' and InFlight or Canceled, 0

  elseif kind == 'Redrive' then -- delay
    if not r or r.state ~= 'd' then return NotFound, 1 end
    r.attempts = 0
    return pend(r, a), 1
  end

  -- The others are for who has the token of the latest claim, which is a.
  local mine = r and r.state == 'f' and r.token == a
  if kind == 'Ack' then
    if mine then records[name] = false end
    return mine and Done or Stale, 1

  elseif kind == 'Extend' then -- token, delay
    if mine then r.look = after(b) end
    return mine and Done or Stale, 2

  elseif kind == 'Bury' then -- token, error
    if mine then kill(r, b) end
    return mine and Done or Stale, 2

  elseif kind == 'Retry' then -- token, delay, error, whether the attempt counts
    if not mine then return Stale, 4 end
    if d == '1' then r.error = c else r.attempts = r.attempts - 1 end
    return pend(r, b), 4
  end
  return error('redisstore: unknown operation ' .. kind)
end

local statuses = {}
local at = 3
while at < #ARGV do
  local name = ARGV[at + 1]
  local r = records[name]
  if r == nil then
    r = decode(redis.call('HGET', timers, name)) or false
    records[name], before[name] = r, r and r.state
    touched[#touched + 1] = name
  end
  local status, taken = transition(ARGV[at], name, r, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
  statuses[#statuses + 1] = status
  at = at + 2 + taken
end

-- What is written, each by one command with many arguments.
local hset, hdel = {'HSET', timers}, {'HDEL', timers}
local addLive, remLive, addDead, remDead = {'ZADD', live}, {'ZREM', live}, {'ZADD', dead}, {'ZREM', dead}

local head, earliest = first() or math.huge, math.huge
for _, name in ipairs(touched) do
  local was, r = before[name], records[name]
  local is = r and r.state
  if is then
    push(hset, name, encode(r))
  elseif was then
    push(hdel, name)
  end
  if is == 'd' then
    push(addDead, r.look, name)
  elseif is then
    push(addLive, r.look, name)
    if r.look < earliest then earliest = r.look end
  end
  if was == 'd' and is ~= 'd' then push(remDead, name) end
  if (was == 'p' or was == 'f') and (not is or is == 'd') then push(remLive, name) end
end
if not growing then unfetter() end
write(hset)
write(hdel)
write(addLive)
write(remLive)
write(addDead)
write(remDead)

if earliest < head then
  statuses[#statuses + 1] = earliest
  -- Only a hint: that it is not allowed must not undo the answer.
  redis.pcall('PUBLISH', ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', earliest))
else
  statuses[#statuses + 1] = 0
end
return statuses
