-- Count the evaluators' scores of run items of an experiment by run, name and fingerprint, beside the reviewers' votes
-- on the same items. It reads the two compared runs, and every other run that has votes.
WITH said AS (
    SELECT run_id, item_number, source, author, arg_max(lower(label), number) AS label
    FROM annotation
    WHERE tenant = $tenant AND name = $name AND target = 'run_item' AND source IN ('person', 'adjudicator')
    GROUP BY run_id, item_number, source, author
    HAVING NOT arg_max(withdrawn, number)
),
votes AS (
    SELECT
        run_id,
        item_number,
        bool_and(label IN ('correct', 'pass', 'yes', 'up')) FILTER (WHERE source = 'adjudicator') AS decided,
        count(*) FILTER (WHERE source = 'person' AND label IN ('correct', 'pass', 'yes', 'up')) AS passes,
        count(*) FILTER (WHERE source = 'person' AND label IN ('incorrect', 'fail', 'no', 'down')) AS fails
    FROM said
    WHERE label IN ('correct', 'pass', 'yes', 'up', 'incorrect', 'fail', 'no', 'down')
    GROUP BY run_id, item_number
),
labels AS (
    SELECT
        run_id,
        item_number,
        CASE WHEN decided IS NOT NULL THEN decided WHEN passes <> fails THEN passes > fails END AS people
    FROM votes
)
SELECT
    s.run_id,
    s.name,
    coalesce(s.fingerprint, 'version ' || s.evaluator_version) AS fingerprint,
    count(*) FILTER (WHERE s.passed) AS passed,
    count(*) FILTER (WHERE NOT s.passed) AS failed,
    count(*) FILTER (WHERE l.people AND s.passed) AS passed_passed,
    count(*) FILTER (WHERE l.people AND NOT s.passed) AS passed_failed,
    count(*) FILTER (WHERE NOT l.people AND s.passed) AS failed_passed,
    count(*) FILTER (WHERE NOT l.people AND NOT s.passed) AS failed_failed
FROM run_score AS s
INNER JOIN run AS r ON r.run_id = s.run_id
LEFT JOIN labels AS l ON l.run_id = s.run_id AND l.item_number = s.item_number
WHERE r.tenant = $tenant
    AND r.experiment_id = $experiment_id
    AND s.outcome = 'scored'
    AND s.passed IS NOT NULL
    AND coalesce(s.fingerprint, s.evaluator_version) IS NOT NULL
    AND s.score_number NOT IN (SELECT score_number FROM superseded_score)
    AND EXISTS (SELECT 1 FROM labels)
    AND (list_contains($runs::VARCHAR[], s.run_id) OR s.run_id IN (SELECT run_id FROM labels))
GROUP BY ALL
ORDER BY s.name, s.run_id;
