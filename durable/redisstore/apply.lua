-- Carries out operations, each as durable.Store says.
--
-- ARGV: the channel for hints, the number of the shard, and for each operation its
-- kind, the name of the timer and what the kind takes: see the calls of arg below.
-- Returns one status for each and, last, the new earliest score if it became
-- earlier, else 0.
local Created, Replaced, Exists, InFlight, Dead, Canceled, NotFound, Done, Stale = 1, 2, 3, 4, 5, 6, 7, 8, 9

local at = 2
local function arg()
  at = at + 1
  return ARGV[at]
end

-- The records are read when first needed, changed here, and written at the end.
local records = {} -- name -> record, or false if there is none
local before = {} -- name -> p, f, d or false: the state when it was read
local touched = {} -- the names, in order
local growing = false -- whether something is added

local function load(name)
  if before[name] == nil then
    local r = decode(redis.call('HGET', timers, name)) or false
    records[name], before[name] = r, r and r.state
    touched[#touched + 1] = name
  end
  return records[name]
end

local function put(name, delay, id, payload, replace)
  local r = load(name)
  if r then
    if r.state == 'p' and r.id == id and id ~= '' then return Created end
    if not replace then return ({p = Exists, f = InFlight, d = Dead})[r.state] end
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

-- claimed returns the record if it was last claimed with the token.
local function claimed(name, token)
  local r = load(name)
  return r and r.state == 'f' and r.token == token and r
end

local transitions = {
  Put = function(name) return put(name, arg(), arg(), arg(), true) end,
  PutNew = function(name) return put(name, arg(), arg(), arg(), false) end,

  Cancel = function(name)
    local r = load(name)
    if not r then return NotFound end
    records[name] = false
    return r.state == 'f' and InFlight or Canceled
  end,

  Redrive = function(name)
    local r, delay = load(name), arg()
    if not r or r.state ~= 'd' then return NotFound end
    r.attempts = 0
    return pend(r, delay)
  end,

  Ack = function(name)
    local r = claimed(name, arg())
    if not r then return Stale end
    records[name] = false
    return Done
  end,

  Retry = function(name)
    local r, delay, why, counted = claimed(name, arg()), arg(), arg(), arg()
    if not r then return Stale end
    if counted == '1' then r.error = why else r.attempts = r.attempts - 1 end
    return pend(r, delay)
  end,

  Extend = function(name)
    local r, delay = claimed(name, arg()), arg()
    if not r then return Stale end
    r.look = after(delay)
    return Done
  end,

  Bury = function(name)
    local r, why = claimed(name, arg()), arg()
    if not r then return Stale end
    kill(r, why)
    return Done
  end,
}

local statuses = {}
while at < #ARGV do
  local kind = arg()
  statuses[#statuses + 1] = transitions[kind](arg())
end

-- What is written, each by one command with many arguments.
local writes = {
  {'HSET', timers}, {'HDEL', timers}, {'ZADD', live}, {'ZREM', live}, {'ZADD', dead}, {'ZREM', dead},
}
local hset, hdel, zaddLive, zremLive, zaddDead, zremDead = unpack(writes)
local function add(command, a, b)
  command[#command + 1] = a
  command[#command + 1] = b
end

local head, earliest = first() or math.huge, math.huge
for _, name in ipairs(touched) do
  local was, r = before[name], records[name]
  if r then
    add(hset, name, encode(r))
    if r.state == 'd' then
      add(zaddDead, r.look, name)
    else
      add(zaddLive, r.look, name)
      earliest = math.min(earliest, r.look)
    end
  elseif was then
    add(hdel, name)
  end
  if was == 'd' and (not r or r.state ~= 'd') then add(zremDead, name) end
  if (was == 'p' or was == 'f') and (not r or r.state == 'd') then add(zremLive, name) end
end

if not growing then unfetter() end
for _, command in ipairs(writes) do
  if #command > 2 then redis.call(unpack(command)) end
end

if earliest < head then
  statuses[#statuses + 1] = earliest
  -- Only a hint: that it is not allowed must not undo the answer.
  redis.pcall('PUBLISH', ARGV[1], ARGV[2] .. ' ' .. string.format('%.0f', earliest))
else
  statuses[#statuses + 1] = 0
end
return statuses
