-- Writes one record if its condition holds.
--
-- KEYS  the record, then as far as ARGV[1] has the letter:
--       i  the index of the partition's siblings
--       p  the payload of the new record, which must exist
--       o  the payload of the old record (named only so that a moving slot is noticed)
-- ARGV  2 "any", "absent" or "tag"   3 the demanded tag   4 the new tag
--       5 the expiry in ms or ""     6 the sort           7 what payload keys begin with
--       8 how many pairs follow      then pairs of field and value, then fields to drop
--
-- A write that is refused for want of memory must be refused before anything has changed, so
-- the first command that writes is HSET.
local letters, cond, want, tag, expire = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local sort, payloads, pairsEnd = ARGV[6], ARGV[7], 8 + 2 * tonumber(ARGV[8])

local record, last = KEYS[1], 1
local function key(letter)
	if string.find(letters, letter, 1, true) then
		last = last + 1
		return KEYS[last]
	end
end
local index, payload = key('i'), key('p')

local have = redis.call('HGET', record, 'tag')
if have == tag then
	return {'ok'} -- an earlier attempt of this very request was carried out
end
if cond == 'absent' and have or cond == 'tag' and have ~= want then
	if payload then
		redis.call('UNLINK', payload)
	end
	return {'conflict', redis.call('HMGET', record, 'tag', 'payload', 'method', 'saved_at', 'expire_at', 'id', 'state', 'data')}
end
if payload and redis.call('EXISTS', payload) == 0 then
	return {'missing'}
end

redis.call('HSET', record, 'tag', tag, unpack(ARGV, 9, pairsEnd))
if #ARGV > pairsEnd then
	redis.call('HDEL', record, unpack(ARGV, pairsEnd + 1))
end
for _, k in ipairs({record, payload}) do
	if expire == '' then
		redis.call('PERSIST', k)
	else
		redis.call('PEXPIREAT', k, expire)
	end
end
if have and string.sub(have, 1, 1) == 'p' then
	redis.call('UNLINK', payloads .. have)
end
if not index then
	return {'ok'}
end

-- The index lives as long as the longest-lived sibling in it.
if expire ~= '' and redis.call('EXISTS', record) == 0 then
	redis.call('ZREM', index, sort) -- the expiry lies in the past
	return {'ok'}
end
local left = redis.call('PTTL', index) -- -2: there is none, -1: it never expires
redis.call('ZADD', index, 0, sort)
if expire == '' then
	if left >= 0 then
		redis.call('PERSIST', index)
	end
elseif left == -2 or left == -1 and redis.call('ZCARD', index) == 1 then
	redis.call('PEXPIREAT', index, expire)
elseif left >= 0 then
	local now = redis.call('TIME')
	if now[1] * 1000 + math.floor(now[2] / 1000) + left < tonumber(expire) then
		redis.call('PEXPIREAT', index, expire)
	end
end
return {'ok'}
