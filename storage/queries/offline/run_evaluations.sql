-- Return run evaluations in order of creation. $run_id selects those of one run; NULL matches all. $only_open keeps
-- open ones of runs that have ended.
SELECT
    e.* EXCLUDE (created_at, ended_at, continues_at),
    r.project,
    r.state AS run_state,
    epoch_us(e.created_at) * 1000 AS created_at_ns,
    epoch_us(e.ended_at) * 1000 AS ended_at_ns,
    epoch_us(e.continues_at) AS continues_at_us,
    coalesce(s.scored, 0) AS scored,
    coalesce(s.failed, 0) AS failed,
    coalesce(s.skipped, 0) AS skipped
FROM run_evaluation AS e
INNER JOIN run AS r ON r.run_id = e.run_id
LEFT JOIN (
    SELECT
        evaluation_id,
        count(*) FILTER (outcome = 'scored') AS scored,
        count(*) FILTER (outcome = 'failed') AS failed,
        count(*) FILTER (outcome = 'skipped') AS skipped
    FROM run_score
    WHERE run_id = $run_id
    GROUP BY evaluation_id
) AS s ON s.evaluation_id = e.evaluation_id
WHERE ($run_id::VARCHAR IS NULL OR e.run_id = $run_id)
    AND (NOT $only_open OR (e.state IN ('waiting', 'running') AND r.state != 'RUNNING'))
ORDER BY e.created_at, e.evaluation_id;
