-- The keys and trials that a run has, in the order in which they came, after one of them.
SELECT item_number, item_key, trial
FROM run_item
WHERE run_id = $run_id
    AND item_number > $after
ORDER BY item_number
LIMIT $items;
