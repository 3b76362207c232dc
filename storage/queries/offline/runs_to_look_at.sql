-- Return runs that ended, or were judged again, after their last check; those that ended first come first. A run waits
-- for open evaluations of itself and of earlier runs of its experiment, up to a limit.
SELECT r.run_id
FROM (
    SELECT
        *,
        CASE
            WHEN looked_at IS NULL THEN coalesce(completed_at, reported_at)
            ELSE (SELECT min(e.ended_at) FROM run_evaluation AS e WHERE e.run_id = run.run_id AND e.ended_at >= looked_at)
        END AS due_at
    FROM run
    WHERE state IN ('SUCCESS', 'FAILED')
) AS r
WHERE r.due_at <= make_timestamp($waits_after_us::BIGINT)
    OR (
        r.due_at IS NOT NULL
        AND NOT EXISTS (
            SELECT 1
            FROM run_evaluation AS e
            INNER JOIN run AS o ON o.run_id = e.run_id
            WHERE e.state IN ('waiting', 'running')
                AND o.state IN ('SUCCESS', 'FAILED')
                AND o.experiment_id = r.experiment_id
                AND o.started_at <= r.started_at
        )
    )
ORDER BY r.completed_at, r.run_id
LIMIT $runs;
