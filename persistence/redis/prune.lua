-- Takes siblings that are no longer there, since they expired, out of the index.
--
-- KEYS  the index, then siblings      ARGV  the sorts of these siblings
for i = 2, #KEYS do
	if redis.call('EXISTS', KEYS[i]) == 0 then
		redis.call('ZREM', KEYS[1], ARGV[i - 1])
	end
end
return {'ok'}
