-- Count the runs that may expire, and those of them that ended before an instant.
SELECT count(*), count(*) FILTER (WHERE completed_at < make_timestamp($before_us::BIGINT))
FROM run
WHERE pinned_at IS NULL;
