-- Runs that have ended, or were judged again since, after they were last looked at; the first that ended first.
SELECT r.run_id
FROM run AS r
WHERE r.state IN ('SUCCESS', 'FAILED')
    AND NOT EXISTS (
        SELECT 1 FROM run_evaluation AS e WHERE e.run_id = r.run_id AND e.state IN ('waiting', 'running')
    )
    AND (
        r.looked_at IS NULL
        OR EXISTS (SELECT 1 FROM run_evaluation AS e WHERE e.run_id = r.run_id AND e.ended_at >= r.looked_at)
    )
ORDER BY r.completed_at, r.run_id
LIMIT $runs;
