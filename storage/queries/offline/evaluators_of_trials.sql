-- Count each evaluator's results in each trial of a run by outcome, with the mean score.
SELECT
    s.name,
    i.trial,
    count(*) FILTER (s.passed) AS passed,
    count(*) FILTER (NOT s.passed) AS not_passed,
    count(*) FILTER (s.outcome = 'failed') AS failed,
    count(*) FILTER (s.outcome = 'skipped') AS skipped,
    avg(s.score) AS mean
FROM run_score AS s
INNER JOIN run_item AS i ON i.run_id = s.run_id AND i.item_number = s.item_number
WHERE s.run_id = $run_id
    AND i.run_id = $run_id
    AND s.score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id)
GROUP BY s.name, i.trial
ORDER BY s.name, i.trial;
