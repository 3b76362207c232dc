-- Return the columns of each counted score that a comparison of runs reads. A score without a number is the end of its
-- scale.
SELECT
    s.item_number,
    s.name,
    s.outcome,
    coalesce(s.score, (s.passed = (s.direction IS DISTINCT FROM 'lower'))::DOUBLE) AS score,
    s.passed
FROM run_score AS s
WHERE s.run_id = $run_id
    AND s.score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id);
