-- Return the input and metadata of each case of a run from its first trial, in order of arrival.
SELECT arg_min(i.inputs, (i.trial, i.item_number)) AS inputs, arg_min(i.metadata, (i.trial, i.item_number)) AS metadata
FROM run_item AS i
WHERE i.run_id = $run_id
GROUP BY i.item_key
ORDER BY min(i.item_number);
