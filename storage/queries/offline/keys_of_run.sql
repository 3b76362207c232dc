-- Return the keys and trials of a run in order of arrival, after one of them.
SELECT item_number, item_key, trial
FROM run_item
WHERE run_id = $run_id
    AND item_number > $after
ORDER BY item_number
LIMIT $items;
