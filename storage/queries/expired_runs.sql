-- Runs that ended before a moment, the oldest first.
SELECT run_id
FROM run
WHERE completed_at < make_timestamp($before_us::BIGINT)
ORDER BY completed_at
LIMIT $runs;
