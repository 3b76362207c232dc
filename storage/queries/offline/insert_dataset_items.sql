-- Insert items whose content is new to the dataset, numbered after the last one.
INSERT INTO dataset_item BY NAME
SELECT
    $tenant AS tenant,
    $dataset_id AS dataset_id,
    (SELECT coalesce(max(item_key), 0) FROM dataset_item) + row_number() OVER (ORDER BY n.ordinal) AS item_key,
    n.item_id,
    n.digest,
    n.inputs,
    n.expected_outputs,
    n.metadata,
    n.source,
    make_timestamp($now_us::BIGINT) AS created_at
FROM new_items AS n
ANTI JOIN (SELECT item_id, digest FROM dataset_item WHERE dataset_id = $dataset_id) AS known USING (item_id, digest);
