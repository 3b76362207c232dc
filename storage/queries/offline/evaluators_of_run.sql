-- The evaluators of a run by name: how they judge, and whether that is the same for all of its items. What is not known differs from nothing.
SELECT
    s.name,
    any_value(s.direction) FILTER (s.outcome = 'scored') AS direction,
    any_value(s.threshold) AS threshold,
    any_value(coalesce(s.fingerprint, s.evaluator_version)) AS fingerprint,
    greatest(
        count(DISTINCT s.direction) FILTER (s.outcome = 'scored'),
        count(DISTINCT s.threshold),
        count(DISTINCT coalesce(s.fingerprint, s.evaluator_version))
    ) < 2 AS is_one
FROM run_score AS s
WHERE s.run_id = $run_id
    AND s.score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id)
GROUP BY s.name
ORDER BY s.name;
