-- Return runs that ended before an instant and are not pinned, oldest first.
SELECT run_id
FROM run
WHERE completed_at < make_timestamp($before_us::BIGINT) AND pinned_at IS NULL
ORDER BY completed_at
LIMIT $runs;
