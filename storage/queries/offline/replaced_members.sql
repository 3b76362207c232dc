-- Return the items of the next version: exactly those of the request.
SELECT w.ordinal, i.item_key, w.item_id, w.digest
FROM wanted_items AS w
INNER JOIN (
    SELECT item_id, digest, min(item_key) AS item_key
    FROM dataset_item
    WHERE dataset_id = $dataset_id
    GROUP BY item_id, digest
) AS i USING (item_id, digest);
