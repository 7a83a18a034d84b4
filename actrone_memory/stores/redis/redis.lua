-- The steps of `RedisStore`, each atomic: ARGV[1] names the step, its arguments follow; KEYS are all keys that it touches.
--
-- A session is two keys that expire together. The log, a hash: r<n> is record n, t<k> the number at which turn k begins,
-- `next` and `first` the numbers of the next record and of the first kept one, `turns` and `oldest` the same for turns,
-- `archived` and `erased` the marks, `hold` whether turns wait for the archive, `created` and `active` the span of the
-- records' own times, `touched` the server's time of the last append. The seen ids, a sorted set: id -> number.
--
-- The index of an agent is a sorted set: session -> when it expires in ms, +inf while its turns wait for the archive.

local CHUNK = 1000  -- values read at once: Lua's stack takes some thousands

local function digits(number)  -- tostring() would round numbers of more than 14 digits
  return string.format('%.0f', number)
end

local function now_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function read_log(key)
  local value = redis.call('HMGET', key, 'next', 'first', 'turns', 'oldest', 'archived', 'erased', 'hold', 'touched',
    'created', 'active')
  if not value[1] then
    return nil
  end
  return {
    key = key, next = tonumber(value[1]), first = tonumber(value[2]), turns = tonumber(value[3]),
    oldest = tonumber(value[4]), archived = tonumber(value[5]), erased = tonumber(value[6]), hold = value[7] == '1',
    touched = tonumber(value[8]), created = value[9], active = value[10],
  }
end

-- Numbers of a new log begin at the server's clock: whatever bore the same name before lies behind it for ever.
local function new_log(key, seen)
  if redis.call('EXISTS', seen) == 1 then
    redis.call('DEL', seen)
  end
  local start = now_us()
  return {key = key, next = start, first = start, turns = 0, oldest = 0, archived = -1, erased = -1}
end

local function begins(log, turn)
  return tonumber(redis.call('HGET', log.key, 't' .. digits(turn)))
end

local function records_from(log, start)
  local found = {digits(start)}
  for low = start, log.next - 1, CHUNK do
    local fields = {}
    for number = low, math.min(low + CHUNK, log.next) - 1 do
      fields[#fields + 1] = 'r' .. digits(number)
    end
    for _, document in ipairs(redis.call('HMGET', log.key, unpack(fields))) do
      found[#found + 1] = document
    end
  end
  return found
end

-- Gives up turns beyond the window, those that wait for the archive only when the backlog is full; returns how many of
-- these.
local function trim(log, max_turns, backlog)
  local lost = 0
  while log.turns - log.oldest > max_turns do
    local stop = begins(log, log.oldest + 1)
    if log.hold and log.archived < stop - 1 then
      if log.turns - log.oldest <= max_turns + backlog then
        break
      end
      lost = lost + 1
    end
    redis.call('HDEL', log.key, 't' .. digits(log.oldest))
    for number = log.first, stop - 1 do
      redis.call('HDEL', log.key, 'r' .. digits(number))
    end
    log.first, log.oldest = stop, log.oldest + 1
  end
  return lost
end

local function write_log(log)
  redis.call('HSET', log.key, 'next', digits(log.next), 'first', digits(log.first), 'turns', digits(log.turns),
    'oldest', digits(log.oldest), 'archived', digits(log.archived), 'erased', digits(log.erased),
    'hold', log.hold and '1' or '0', 'touched', digits(log.touched), 'created', log.created, 'active', log.active)
end

-- The index lives as long as the last of its sessions.
local function settle_index(index)
  local latest = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')
  if latest[2] == 'inf' then
    redis.call('PERSIST', index)
  elseif latest[2] then
    redis.call('PEXPIREAT', index, latest[2])
  end
end

-- A session expires `ttl` ms after its last append, but not while its turns wait for the archive.
local function settle(log, seen, index, name, ttl)
  if log.hold and log.archived < log.next - 1 then
    redis.call('ZADD', index, '+inf', name)
    redis.call('PERSIST', log.key)
    redis.call('PERSIST', seen)
  else
    local expires = digits(log.touched + ttl)
    redis.call('ZADD', index, expires, name)
    redis.call('PEXPIREAT', log.key, expires)
    redis.call('PEXPIREAT', seen, expires)
  end
  redis.call('ZREMRANGEBYSCORE', index, '-inf', digits(math.floor(now_us() / 1000)))
  settle_index(index)
end

local steps = {}

-- KEYS log, seen, index; ARGV name, max_turns, backlog, ttl, remembered, hold, then for each record: id, continues,
-- time, document. Returns how many turns were given up unarchived.
-- The first write is one that Redis refuses when its memory is full, so that then nothing is written.
function steps.append(keys, argv)
  local name, max_turns, backlog, ttl, remembered, hold = unpack(argv, 2, 7)
  local log, seen = read_log(keys[1]) or new_log(keys[1], keys[2]), keys[2]
  for i = 8, #argv, 4 do
    local id, continues, time, document = unpack(argv, i, i + 3)
    if not redis.call('ZSCORE', seen, id) then
      redis.call('HSET', log.key, 'r' .. digits(log.next), document)
      if continues == '0' or log.turns == log.oldest then
        redis.call('HSET', log.key, 't' .. digits(log.turns), digits(log.next))
        log.turns = log.turns + 1
      end
      redis.call('ZADD', seen, digits(log.next), id)
      log.next = log.next + 1
      log.created = (not log.created or time < log.created) and time or log.created
      log.active = (not log.active or time > log.active) and time or log.active
    end
  end
  log.hold, log.touched = hold == '1', math.floor(now_us() / 1000)
  redis.call('ZREMRANGEBYRANK', seen, 0, -math.max(tonumber(remembered), log.next - log.first) - 1)
  local lost = trim(log, tonumber(max_turns), tonumber(backlog))
  write_log(log)
  settle(log, seen, keys[3], name, tonumber(ttl))
  return lost
end

-- KEYS log; ARGV n. Returns the number of the first record and the records of the last n turns.
function steps.recent(keys, argv)
  local log = read_log(keys[1])
  if not log or log.turns == log.oldest then
    return {}
  end
  return records_from(log, begins(log, math.max(log.oldest, log.turns - tonumber(argv[2]))))
end

-- KEYS log. Returns the archived mark, the number of the first record and the records after the erased mark, from the
-- start of the first turn that is not wholly archived.
function steps.pending(keys)
  local log = read_log(keys[1])
  if not log or log.turns == log.oldest or log.archived >= log.next - 1 then
    return {}
  end
  local turn = log.turns - 1
  while turn > log.oldest and begins(log, turn) > log.archived + 1 do
    turn = turn - 1
  end
  local found = records_from(log, math.max(log.erased + 1, begins(log, turn)))
  table.insert(found, 1, digits(log.archived))
  return found
end

-- KEYS log, seen, index; ARGV name, max_turns, backlog, ttl, number, id of the last archived record.
-- A mark of an earlier session of this name finds another number under the id, and is ignored.
function steps.mark(keys, argv)
  local name, max_turns, backlog, ttl, number, id = unpack(argv, 2, 7)
  local log, last = read_log(keys[1]), tonumber(number)
  if log and last > log.archived and tonumber(redis.call('ZSCORE', keys[2], id) or -1) == last then
    log.archived = last
    trim(log, tonumber(max_turns), tonumber(backlog))
    write_log(log)
    settle(log, keys[2], keys[3], name, tonumber(ttl))
  end
end

-- KEYS index, then log and seen of each session; ARGV max_turns, backlog, ttl, then the name of each session.
function steps.erase(keys, argv)
  local max_turns, backlog, ttl = unpack(argv, 2, 4)
  for i = 1, #argv - 4 do
    local log, seen, name = read_log(keys[2 * i]), keys[2 * i + 1], argv[4 + i]
    if log then
      log.archived, log.erased = log.next - 1, log.next - 1
      trim(log, tonumber(max_turns), tonumber(backlog))
      write_log(log)
      settle(log, seen, keys[1], name, tonumber(ttl))
    end
  end
end

-- KEYS log, seen. Returns the numbers, flags and times of a session, the ids of trimmed records, and the kept records.
function steps.copy(keys)
  local log = read_log(keys[1])
  if not log then
    return {}
  end
  local given_up = redis.call('ZRANGEBYSCORE', keys[2], '-inf', '(' .. digits(log.first))
  return {digits(log.next), digits(log.archived), digits(log.erased), log.hold and '1' or '0', log.created, log.active,
    given_up, records_from(log, log.first)}
end

-- KEYS log, seen, index; ARGV name, ttl, next, archived, erased, hold, created, active, how many ids of trimmed records
-- follow, these ids, then for each record: id, whether it opens a turn, document. 0 when there is such a session.
function steps.add(keys, argv)
  local name, ttl, next, archived, erased, hold, created, active, given_up = unpack(argv, 2, 10)
  if redis.call('EXISTS', keys[1]) == 1 then
    return 0
  end
  local log = new_log(keys[1], keys[2])
  log.archived, log.erased, log.hold = tonumber(archived), tonumber(erased), hold == '1'
  log.created, log.active, log.touched = created, active, math.floor(log.first / 1000)
  local first_record = 11 + tonumber(given_up)
  log.next = tonumber(next)
  log.first = log.next - (#argv + 1 - first_record) / 3
  for i = first_record, #argv, 3 do
    local number = log.first + (i - first_record) / 3
    redis.call('HSET', log.key, 'r' .. digits(number), argv[i + 2])
    if argv[i + 1] == '1' then
      redis.call('HSET', log.key, 't' .. digits(log.turns), digits(number))
      log.turns = log.turns + 1
    end
    redis.call('ZADD', keys[2], digits(number), argv[i])
  end
  for i = 11, first_record - 1 do
    redis.call('ZADD', keys[2], digits(log.first - first_record + i), argv[i])
  end
  write_log(log)
  settle(log, keys[2], keys[3], name, tonumber(ttl))
  return 1
end

-- KEYS log, seen, lock, index; ARGV name.
function steps.clear(keys, argv)
  redis.call('UNLINK', keys[1], keys[2], keys[3])
  redis.call('ZREM', keys[4], argv[2])
  settle_index(keys[4])
end

-- KEYS index. Returns the names of the sessions, among them perhaps some that have expired.
function steps.names(keys)
  return redis.call('ZRANGE', keys[1], 0, -1)
end

-- KEYS logs. Returns for each: how many turns it holds, and the span of its records' times; 0 turns for no session.
function steps.describe(keys)
  local found = {}
  for _, key in ipairs(keys) do
    local value = redis.call('HMGET', key, 'turns', 'oldest', 'created', 'active')
    found[#found + 1] = tonumber(value[1] or 0) - tonumber(value[2] or 0)
    found[#found + 1] = value[3] or ''
    found[#found + 1] = value[4] or ''
  end
  return found
end

-- KEYS lock; ARGV seconds, token. 1 for the holder, also when it asks again because the first answer was lost.
function steps.lock(keys, argv)
  local seconds, token = argv[2], argv[3]
  if seconds == '0' then
    return 1 - redis.call('EXISTS', keys[1])
  end
  if redis.call('SET', keys[1], token, 'NX', 'EX', seconds) then
    return 1
  end
  return redis.call('GET', keys[1]) == token and 1 or 0
end

-- KEYS epoch; ARGV token, ttl. Returns the epoch of the agent's cached vectors: an erasure ends it.
function steps.epoch(keys, argv)
  redis.call('SET', keys[1], argv[2], 'NX', 'PX', argv[3])
  return redis.call('GET', keys[1])
end

-- KEYS vectors. Returns each, or nothing in its place.
function steps.vectors(keys)
  return redis.call('MGET', unpack(keys))
end

-- KEYS epoch, index, then vectors; ARGV epoch, ttl, then name and bytes of each vector. Writes them unless the epoch has
-- ended. The index knows what is cached and until when, so that an erasure finds it.
function steps.cache(keys, argv)
  local epoch, ttl = argv[2], argv[3]
  if redis.call('GET', keys[1]) ~= epoch then
    return
  end
  local now = math.floor(now_us() / 1000)
  for i = 3, #keys do
    local name, vector = argv[2 * i - 2], argv[2 * i - 1]
    redis.call('SET', keys[i], vector, 'PX', ttl)
    redis.call('ZADD', keys[2], digits(now + tonumber(ttl)), name)
  end
  redis.call('ZREMRANGEBYSCORE', keys[2], '-inf', digits(now))
  redis.call('PEXPIRE', keys[2], ttl)
  redis.call('PEXPIRE', keys[1], ttl)
end

-- KEYS epoch, index. Ends the epoch and returns the names of the vectors that are cached.
function steps.uncache(keys)
  redis.call('UNLINK', keys[1])
  return redis.call('ZRANGE', keys[2], 0, -1)
end

-- KEYS index, then vectors; ARGV their names.
function steps.forget(keys, argv)
  for i = 2, #keys do
    redis.call('UNLINK', keys[i])
    redis.call('ZREM', keys[1], argv[i])
  end
end

return steps[ARGV[1]](KEYS, ARGV)
