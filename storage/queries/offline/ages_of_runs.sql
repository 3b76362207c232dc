-- How many runs there are that may expire, and how many of these ended before a moment.
SELECT count(*), count(*) FILTER (WHERE completed_at < make_timestamp($before_us::BIGINT))
FROM run
WHERE pinned_at IS NULL;
