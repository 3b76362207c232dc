-- Return which of the given items a run has, and whether they are equal.
SELECT n.place, n.item_key, n.digest = i.digest AS same
FROM new_run_items AS n
INNER JOIN run_item AS i ON i.item_key = n.item_key AND i.trial = n.trial
WHERE i.run_id = $run_id;
