-- Return what a comparison of runs reads of each item, by case in order of arrival, with the trials of a case together.
SELECT i.item_number, i.item_key, i.is_keyed, i.cost_usd, i.latency_ms
FROM run_item AS i
WHERE i.run_id = $run_id
ORDER BY min(i.item_number) OVER (PARTITION BY i.item_key), i.trial, i.item_number;
