-- The evaluators of a run by name: how they judge, and whether that is the same for all of its items. What is not known differs from nothing,
-- and the version stands for the fingerprint only beside a score: failures often have the one without the other.
SELECT
    s.name,
    any_value(s.direction) FILTER (s.outcome = 'scored') AS direction,
    any_value(s.threshold) AS threshold,
    any_value(s.known_fingerprint) AS fingerprint,
    greatest(
        count(DISTINCT s.direction) FILTER (s.outcome = 'scored'),
        count(DISTINCT s.threshold),
        count(DISTINCT s.known_fingerprint)
    ) < 2 AS is_one
FROM (
    SELECT *, coalesce(fingerprint, CASE WHEN outcome = 'scored' THEN evaluator_version END) AS known_fingerprint
    FROM run_score
    WHERE run_id = $run_id
) AS s
WHERE s.score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id)
GROUP BY s.name
ORDER BY s.name;
