package redis

import "github.com/redis/go-redis/v9"

// lateKept is how many late events at least are recognised when they are sent again. They cost some
// 120 bytes each, and up to twice as many are kept.
const lateKept = 50_000

// add adds events to the stream KEYS[1], in order, until one cannot be added: then it answers Redis's
// error. KEYS[2] is a hash of late events, by event id and campaign; KEYS[3] is the one before it.
// ARGV is the length to trim to (0: none), how many late events to keep, 1 if replicas are waited for,
// and for each event its position, the number of words of its entry, and these: field, value and so
// on, first event_id with the event's id and campaign_id with its campaign, which together tell it
// from others. Numbers of 64 bits stay text, since Lua would round them.
func add() *redis.Script {
	return redis.NewScript(`
local stream, late, older = KEYS[1], KEYS[2], KEYS[3]
local most, keep, replicas = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local repeated = false

local function holds(id, event)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  return entry and entry[2][2] .. '/' .. (entry[2][4] or '') == event
end

local function held(position, event)
  if position ~= '0' and holds(position .. '-0', event) then return true end
  local id = redis.call('HGET', late, event) or redis.call('HGET', older, event)
  return id and holds(id, event)
end

local function top()
  local info = redis.pcall('XINFO', 'STREAM', stream)
  if info.err then return '0', '0' end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return string.match(info[i + 1], '(%d+)-(%d+)') end
  end
end

local at = 4
while at <= #ARGV do
  local position, words = ARGV[at], tonumber(ARGV[at + 1])
  local command = {'XADD', stream}
  if most ~= '0' then command = {'XADD', stream, 'MAXLEN', '~', most} end
  local place = #command + 1
  command[place] = position .. '-0'
  for i = 1, words do command[place + i] = ARGV[at + 1 + i] end
  local added = redis.pcall(unpack(command))
  if type(added) == 'table' and added.err then
    local first, second = top()
    if #position > #first or (#position == #first and position > first) then return added end
    local event = ARGV[at + 3] .. '/' .. ARGV[at + 5]
    if held(position, event) then
      repeated = true
    else
      command[place] = string.format('%s-%.0f', first, tonumber(second) + 1)
      local again = redis.pcall(unpack(command))
      if type(again) == 'table' and again.err then return again end
      redis.call('HSET', late, event, command[place])
      if redis.call('HLEN', late) >= keep then redis.call('RENAME', late, older) end
    end
  end
  at = at + 2 + words
end
-- WAIT waits for what its connection has written. What is there already another may have written,
-- and no replica may have it yet: a write behind it stands for it.
if repeated and replicas then redis.call('HSET', late, '', '') end
return redis.status_reply('OK')`)
}
