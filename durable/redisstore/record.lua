-- The data of one shard. It is put in front of each script.
--
-- KEYS[1] is a hash: the name of each timer -> its record, which is all that is
-- known of it. The two sorted sets are indexes that can be made again from it:
-- KEYS[2] has the live timers (pending or in flight), the score is when somebody
-- must look next: the due time, or the end of the lease;
-- KEYS[3] has the dead ones, the score is when they died.
-- The names are the same bytes in all three. Instants are milliseconds since 1970.
local timers, live, dead = KEYS[1], KEYS[2], KEYS[3]

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2] -- microseconds

-- after returns the first millisecond that is at least delay microseconds away.
local function after(delay)
  return math.ceil((now + math.max(tonumber(delay), 0)) / 1000)
end

-- A record is a header, the last error and the payload:
--   state look;due;attempts;id;token;length of the error;error payload
-- state is p (pending), f (in flight) or d (dead); look is the score in the index;
-- due is empty if it is the same as look; id is that of the operation that put it.
local header = '^([pfd])(%d+);(%d*);(%d+);(%w*);(%w*);(%d+);()'

local function decode(raw)
  if not raw then return nil end
  local state, look, due, attempts, id, token, length, at = string.match(raw, header)
  if not state then return nil end
  local rest = at + length
  return {
    state = state, look = tonumber(look), due = tonumber(due) or tonumber(look),
    attempts = tonumber(attempts), id = id, token = token,
    error = string.sub(raw, at, rest - 1), payload = string.sub(raw, rest),
  }
end

local function encode(r)
  local due = r.due == r.look and '' or string.format('%.0f', r.due)
  return string.format('%s%.0f;%s;%d;%s;%s;%d;', r.state, r.look, due, r.attempts, r.id, r.token, #r.error)
    .. r.error .. r.payload
end

-- kill makes a record dead.
local function kill(r, why)
  r.state, r.token, r.error = 'd', '', why
  r.look = math.floor(now / 1000)
  r.due = r.look
end

-- lost returns the record of a timer that is in an index and has no record (raw is
-- nil), or one that cannot be read: a dead one, so that somebody sees it.
local function lost(raw)
  local r = {attempts = 0, id = '', payload = raw or ''}
  kill(r, 'redisstore: the record of this timer is missing or damaged')
  return r
end

-- first returns the earliest score of the live timers, or nil.
local function first()
  return tonumber(redis.call('ZRANGE', live, 0, 0, 'WITHSCORES')[2])
end

-- unfetter makes the server accept all writes of this script if its memory is full.
-- It refuses only the first write, and only if that may need memory; this one does
-- nothing, as no timer has an empty name. Without it, a full server could not be
-- drained.
local function unfetter()
  redis.call('HDEL', timers, '')
end

-- push appends arguments to a command.
local function push(command, a, b)
  command[#command + 1] = a
  command[#command + 1] = b
end

-- write runs a command that has more than its name and key.
local function write(command)
  if #command > 2 then redis.call(unpack(command)) end
end
