-- Return items of a run in order of arrival. They are selected first, so that no texts of earlier items are read.
SELECT i.* EXCLUDE (created_at), epoch_us(i.created_at) * 1000 AS created_at_ns
FROM run_item AS i
WHERE i.run_id = $run_id
    AND i.item_number IN (
        SELECT item_number
        FROM run_item
        WHERE run_id = $run_id
        ORDER BY item_number
        LIMIT $items
        OFFSET $skip
    )
ORDER BY i.item_number;
