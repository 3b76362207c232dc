-- Return items of a version by their ids.
SELECT m.ordinal, i.item_id, i.digest, i.inputs, i.expected_outputs, i.metadata, i.source
FROM dataset_member AS m
INNER JOIN dataset_item AS i USING (item_key)
WHERE m.version_key = $version_key
    AND i.item_id IN (SELECT unnest($ids::VARCHAR[]))
ORDER BY m.ordinal;
