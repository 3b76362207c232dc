-- Items of a run, in the order in which they came.
SELECT i.* EXCLUDE (created_at), epoch_us(i.created_at) * 1000 AS created_at_ns
FROM run_item AS i
WHERE i.run_id = $run_id
ORDER BY i.item_number
LIMIT $items
OFFSET $skip;
