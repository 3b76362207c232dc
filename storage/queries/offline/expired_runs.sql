-- Runs that ended before a moment and are not pinned, the oldest first.
SELECT run_id
FROM run
WHERE completed_at < make_timestamp($before_us::BIGINT) AND pinned_at IS NULL
ORDER BY completed_at
LIMIT $runs;
