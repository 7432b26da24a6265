"""Lua scripts, each an atomic step on the server. They are constants: names and values come as KEYS and ARGV only."""

# KEYS: lease. ARGV: owner, milliseconds that the lease lasts.
LEASE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# KEYS: counters. ARGV: milliseconds that a new counter lasts; per counter: what to add, 0 only reads.
# All of them are looked at before any is changed, so that one that is no number changes nothing.
ADD_MANY = """
local sums = {}
for i = 1, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if value and not string.match(value, '^-?%d+$') then return redis.error_reply('ERR not a counter') end
  sums[i] = value or '0'
end
for i = 1, #KEYS do
  if ARGV[i + 1] ~= '0' then
    redis.call('SET', KEYS[i], 0, 'PX', ARGV[1], 'NX')
    redis.call('INCRBY', KEYS[i], ARGV[i + 1])
    sums[i] = redis.call('GET', KEYS[i])
  end
end
return sums
"""

# KEYS: session, deadlines of its workspace, the indexes that list it.
# ARGV: expected version, body, time, milliseconds to live, entry of the indexes, deadline.
PUT_SESSION = """
local current = redis.call('HGET', KEYS[1], 'version') or '0'
if current ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', string.format('%d', current + 1), 'body', ARGV[2], 'updated', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], ARGV[6], ARGV[5])
for i = 3, #KEYS do redis.call('ZADD', KEYS[i], ARGV[3], ARGV[5]) end
return 1
"""

# KEYS: session, deadlines of its workspace, indexes. ARGV: expected version, entry of the indexes.
DELETE_SESSION = """
local current = redis.call('HGET', KEYS[1], 'version')
if current and ARGV[1] ~= '' and current ~= ARGV[1] then return 0 end
for i = 2, #KEYS do redis.call('ZREM', KEYS[i], ARGV[2]) end
return redis.call('DEL', KEYS[1])
"""

# KEYS: session, deadlines of its workspace. ARGV: milliseconds to live, deadline, entry of the deadlines.
RENEW_SESSION = """
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3]) end
"""

# An object is a hash: `version` and `id` of the current version (empty id: deleted), the `oldest` stored version, and
# one field per version, named by its number. `outline` is a version's number, the bytes of its body and what is loaded
# in its place, `links` what of the indexes of backlinks it has filled, `creator` who made the object. A server that was
# restarted may have lost the end of its history, which then continues differently: a new epoch tells every replica to
# load everything again.
INDEX = """
local function index(object, version, id, outline, links)
  local former = redis.call('HGET', object, 'links')
  if former and former ~= '' then
    local pairs = cmsgpack.unpack(former)
    for j = 1, #pairs, 2 do redis.call('ZREM', pairs[j], pairs[j + 1]) end
  end
  if outline == '' then
    redis.call('HDEL', object, 'outline', 'links')
  else
    local size, text = string.match(outline, '^(%d+) (.*)$')
    redis.call('HSET', object, 'outline', version .. ' ' .. size .. ' ' .. id .. ' ' .. text, 'links', links)
    if links ~= '' then
      local pairs = cmsgpack.unpack(links)
      for j = 1, #pairs, 2 do redis.call('ZADD', pairs[j], 0, pairs[j + 1]) end
    end
  end
end
"""

# KEYS: head, changed, kept, audits; per write: object, audit of its workspace.
# ARGV: a new epoch; per write: name of the object, expected version or nothing, 1 if it deletes, id for a new object,
# the encoded version, the encoded audit entry, its outline or nothing, its links or nothing, who writes, name of the
# workspace.
COMMIT = (
    INDEX
    + """
local writes, before = (#KEYS - 4) / 2, {}
for i = 1, writes do
  local state = redis.call('HMGET', KEYS[3 + 2 * i], 'version', 'id')
  local live = state[2] and state[2] ~= ''
  local actual, expected = live and state[1] or '0', ARGV[10 * i - 7]
  if expected ~= '' and expected ~= actual then return {0, i, tonumber(actual)} end
  before[i] = {version = tonumber(state[1] or 0), id = live and state[2]}
end
local about = redis.pcall('INFO', 'server')
local run = type(about) == 'string' and string.match(about, 'run_id:(%w+)') or ''
local head = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'number')
if not head[1] or (head[2] and head[2] ~= run) then redis.call('HSET', KEYS[1], 'epoch', ARGV[1]) end
redis.call('HSET', KEYS[1], 'run', run)
local number, made = tonumber(head[3] or 0), {1}
for i = 1, writes do
  local object, at, id = KEYS[3 + 2 * i], 10 * i - 8, before[i].id
  local name, deletes = ARGV[at], ARGV[at + 2] == '1'
  if deletes and not id then
    made[i + 1] = {0, ''}
  else
    id = id or ARGV[at + 3]
    number = number + 1
    local version = string.format('%d', before[i].version + 1)
    redis.call('HSET', object, 'version', version, 'id', deletes and '' or id, version, id .. ' ' .. ARGV[at + 4])
    redis.call('HSETNX', object, 'oldest', '1')
    redis.call('ZADD', KEYS[2], number, name)
    redis.call('ZINCRBY', KEYS[3], 1, name)
    redis.call('LPUSH', KEYS[4 + 2 * i], string.format('%d ', number) .. version .. ' ' .. ARGV[at + 5])
    redis.call('ZADD', KEYS[4], 'NX', string.match(ARGV[at + 5], '^%S+'), ARGV[at + 9])
    if not before[i].id then redis.call('HSET', object, 'creator', ARGV[at + 8]) end
    index(object, version, id, ARGV[at + 6], ARGV[at + 7])
    made[i + 1] = {tonumber(version), id}
  end
end
redis.call('HSET', KEYS[1], 'number', string.format('%d', number))
return made
"""
)

# KEYS: objects. ARGV: per object: the version that it must have, its outline, its links.
INDEX_RECORDS = (
    INDEX
    + """
for i = 1, #KEYS do
  local state = redis.call('HMGET', KEYS[i], 'version', 'id')
  if state[1] == ARGV[3 * i - 2] and state[2] ~= '' then
    index(KEYS[i], state[1], state[2], ARGV[3 * i - 1], ARGV[3 * i])
  end
end
"""
)

# KEYS: objects. ARGV: how many bytes are enough; per object: version, `whole` for the current one, nothing for its
# outline, if it has one. Results: version, text, bytes of the whole version if the text is an outline.
# Fewer results than objects: the bytes were enough; call again for the rest.
FETCH_VERSIONS = """
local found, size = {}, 0
for i = 1, #KEYS do
  local version, text, whole = ARGV[i + 1], nil, ''
  if version == '' then
    local state = redis.call('HMGET', KEYS[i], 'version', 'outline')
    version = state[1] or ''
    local number, size, outline = string.match(state[2] or '', '^(%d+) (%d+) (.*)$')
    if number == version then text, whole = outline, size end
  elseif version == 'whole' then
    version = redis.call('HGET', KEYS[i], 'version') or ''
  end
  text = text or redis.call('HGET', KEYS[i], version) or ''
  found[i] = {version, text, whole}
  size = size + #text
  if size >= tonumber(ARGV[1]) then break end
end
return found
"""

# KEYS: kept; objects. ARGV: how many versions to keep, how many to delete at most; names of the objects.
PRUNE_VERSIONS = """
local keep, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local allowed = left
for i = 2, #KEYS do
  local state = redis.call('HMGET', KEYS[i], 'version', 'oldest')
  if state[1] and left > 0 then
    local version, oldest = tonumber(state[1]), tonumber(state[2])
    local first = math.max(oldest, math.min(version - keep + 1, oldest + left))
    for gone = oldest, first - 1 do redis.call('HDEL', KEYS[i], string.format('%d', gone)) end
    redis.call('HSET', KEYS[i], 'oldest', string.format('%d', first))
    redis.call('ZADD', KEYS[1], version - first + 1, ARGV[i + 1])
    left = left - (first - oldest)
  end
end
return allowed - left
"""

# KEYS: audit of a workspace. ARGV: first, last, how many bytes are enough.
READ_AUDIT = """
local found, size = {}, 0
for i, line in ipairs(redis.call('LRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  found[i] = line
  size = size + #line
  if size >= tonumber(ARGV[3]) then break end
end
return found
"""

# KEYS: audit of a workspace, audits. ARGV: time, how many to delete at most, name of the workspace.
PRUNE_AUDIT = """
local gone, limit = 0, tonumber(ARGV[2])
while true do
  local line = redis.call('LINDEX', KEYS[1], -1)
  if not line then
    redis.call('ZREM', KEYS[2], ARGV[3])
    return gone
  end
  local at = string.match(line, '^%d+ %d+ (%S+) ')
  if gone == limit or tonumber(at) >= tonumber(ARGV[1]) then
    redis.call('ZADD', KEYS[2], at, ARGV[3])
    return gone
  end
  redis.call('RPOP', KEYS[1])
  gone = gone + 1
end
"""

# A receipt whose `boot` is empty was finished by its own process and never changes again.
# KEYS: receipt, all receipts, their bytes, those by workspace, what the process has left open, the sets of `started`
# and `swept`, what waits to be counted (if somebody counts); the sets that it belongs to. ARGV: id, id with workspace,
# status, boot id or nothing, index, summary, details, workspace, the status `started`.
WRITE_RECEIPT = """
local former = redis.call('HMGET', KEYS[1], 'boot', 'size', 'status')
if former[1] == '' then return 0 end
if ARGV[4] == '' and (former[3] or ARGV[9]) == ARGV[9] then redis.call('RPUSHX', KEYS[8], ARGV[2]) end
local size = #ARGV[5] + #ARGV[6] + #ARGV[7] + 200 * (#KEYS - 1)
redis.call('HSET', KEYS[1], 'status', ARGV[3], 'boot', ARGV[4], 'index', ARGV[5], 'summary', ARGV[6],
  'details', ARGV[7], 'size', size)
local more = size - tonumber(former[2] or 0)
redis.call('INCRBY', KEYS[3], more)
redis.call('HINCRBY', KEYS[4], ARGV[8], more)
redis.call('ZADD', KEYS[2], 0, ARGV[2])
redis.call(ARGV[4] == '' and 'SREM' or 'SADD', KEYS[5], ARGV[2])
redis.call('ZREM', KEYS[6], ARGV[1])
redis.call('ZREM', KEYS[7], ARGV[1])
for i = 9, #KEYS do redis.call('ZADD', KEYS[i], 0, ARGV[1]) end
return 1
"""

# KEYS: receipt, what its process has left open, the sets of the two statuses, what waits to be counted.
# ARGV: id, id with workspace, the status that is swept, the one that it becomes.
SWEEP_RECEIPT = """
redis.call('SREM', KEYS[2], ARGV[2])
if redis.call('HGET', KEYS[1], 'status') ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[4])
redis.call('RPUSHX', KEYS[5], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[4], 0, ARGV[1])
return 1
"""

# KEYS: receipt, all receipts, their bytes, those by workspace; the sets that it belongs to. ARGV: id, id with
# workspace, workspace.
DELETE_RECEIPT = """
local size = redis.call('HGET', KEYS[1], 'size')
redis.call('ZREM', KEYS[2], ARGV[2])
for i = 5, #KEYS do redis.call('ZREM', KEYS[i], ARGV[1]) end
if not size then return 0 end
redis.call('INCRBY', KEYS[3], -tonumber(size))
if redis.call('HINCRBY', KEYS[4], ARGV[3], -tonumber(size)) <= 0 then redis.call('HDEL', KEYS[4], ARGV[3]) end
redis.call('DEL', KEYS[1])
return 1
"""

# Figures are read, added up and written back; a number tells whether somebody else has done so meanwhile.
# KEYS: that number, what waits to be counted, the workspaces; per bucket: its rows, the buckets of its workspace, when
# rows that stay for ever were changed.
# ARGV: the number as it was, how many receipts are counted, these; the time; per bucket: workspace, name, series or
# nothing (rows are dropped with the bucket), number of rows; per row: key, value.
ADD_STATISTICS = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
local counted = tonumber(ARGV[2])
local waiting = redis.call('LRANGE', KEYS[2], 1, counted)
for i = 1, counted do
  if waiting[i] ~= ARGV[2 + i] then return 2 end
end
if counted > 0 then redis.call('LTRIM', KEYS[2], counted, -1) end
redis.call('INCR', KEYS[1])
local now, at = ARGV[3 + counted], 4 + counted
for i = 4, #KEYS, 3 do
  local series, rows = ARGV[at + 2], tonumber(ARGV[at + 3])
  redis.call('SADD', KEYS[3], ARGV[at])
  redis.call('SADD', KEYS[i + 1], ARGV[at + 1])
  at = at + 4
  for _ = 1, rows do
    redis.call('HSET', KEYS[i], ARGV[at], ARGV[at + 1])
    if series ~= '' then redis.call('ZADD', KEYS[i + 2], now, series .. ' ' .. ARGV[at]) end
    at = at + 2
  end
end
return 1
"""
