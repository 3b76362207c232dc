-- Delete some rows of a run, those with the lowest numbers first.
DELETE FROM run_item
WHERE run_id = $run_id
    AND item_number IN (
        SELECT item_number FROM run_item WHERE run_id = $run_id ORDER BY item_number LIMIT $rows
    );
