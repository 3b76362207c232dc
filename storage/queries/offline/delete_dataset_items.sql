-- Delete some items of deleted datasets, those with the lowest numbers first.
DELETE FROM dataset_item
WHERE item_key IN (
    SELECT item_key
    FROM dataset_item
    WHERE dataset_id = $dataset_id
    ORDER BY item_key
    LIMIT $items
);
