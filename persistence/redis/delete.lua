-- Removes one record if its condition holds.
--
-- KEYS  the record, then as far as ARGV[1] has the letter:
--       i  the index of the partition's siblings
--       o  the payload of the record (named only so that a moving slot is noticed)
-- ARGV  2 "any" or "tag"   3 the demanded tag   4 the sort   5 what payload keys begin with
local record, index = KEYS[1], string.find(ARGV[1], 'i', 1, true) and KEYS[2]
local have = redis.call('HGET', record, 'tag')
if ARGV[2] == 'tag' and have ~= ARGV[3] then
	return {'conflict', redis.call('HMGET', record, 'tag', 'payload', 'method', 'saved_at', 'expire_at', 'id', 'state', 'data')}
end
redis.call('UNLINK', record)
if have and string.sub(have, 1, 1) == 'p' then
	redis.call('UNLINK', ARGV[5] .. have)
end
if index then
	redis.call('ZREM', index, ARGV[4])
end
return {'ok'}
