-- Return a value that changes with the items or scores of a run, and its number of items, counting each trial.
SELECT
    (SELECT count(*) FROM run_item WHERE run_id = $run_id) AS items,
    count(*) AS scores,
    max(s.score_number) AS last_score
FROM run_score AS s
WHERE s.run_id = $run_id;
