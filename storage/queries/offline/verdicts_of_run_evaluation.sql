-- Count the outcomes of an evaluation of a run, and return why its first item has no score: a failure of the evaluator
-- first, else of the task.
SELECT
    count(*) AS items,
    count(*) FILTER (s.outcome = 'scored') AS scored,
    count(*) FILTER (s.outcome = 'failed') AS failed,
    count(*) FILTER (s.outcome = 'skipped') AS skipped,
    arg_min(s.error_kind, (s.outcome != 'failed', s.item_number)) FILTER (s.outcome != 'scored') AS error_kind,
    arg_min(coalesce(i.error, i.error_kind, s.reason, ''), (s.outcome != 'failed', s.item_number))
        FILTER (s.outcome != 'scored') AS reason
FROM run_score AS s
INNER JOIN run_item AS i ON i.run_id = s.run_id AND i.item_number = s.item_number
WHERE s.run_id = $run_id
    AND s.evaluation_id = $evaluation_id;
