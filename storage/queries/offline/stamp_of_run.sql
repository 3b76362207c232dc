-- What changes of a run whenever its items or scores do, and how many items it has, each trial one.
SELECT
    (SELECT count(*) FROM run_item WHERE run_id = $run_id) AS items,
    count(*) AS scores,
    max(s.score_number) AS last_score
FROM run_score AS s
WHERE s.run_id = $run_id;
