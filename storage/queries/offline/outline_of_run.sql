-- Return the items and outcomes of a run, by case in order of arrival, with the trials of a case together.
SELECT i.item_number, i.item_key, i.trial, o.outcome
FROM run_item AS i
INNER JOIN outcome_of_run_item AS o ON o.run_id = i.run_id AND o.item_number = i.item_number
WHERE i.run_id = $run_id
    AND o.run_id = $run_id
ORDER BY min(i.item_number) OVER (PARTITION BY i.item_key), i.trial, i.item_number;
