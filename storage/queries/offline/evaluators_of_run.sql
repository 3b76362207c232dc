-- Return the evaluators of a run by name, with their configuration and whether it is the same for all items. Unknown
-- values differ from nothing. The version stands for the fingerprint only beside a score, since failures often have one
-- without the other.
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
