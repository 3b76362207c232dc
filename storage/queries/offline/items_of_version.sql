-- Return items of a version from a position on, in their order.
SELECT
    m.ordinal,
    i.item_id,
    i.digest,
    i.inputs,
    i.expected_outputs,
    i.metadata,
    i.source
FROM dataset_member AS m
INNER JOIN dataset_item AS i USING (item_key)
WHERE m.version_key = $version_key
    AND m.ordinal >= $first
    AND m.ordinal < $first + $items
ORDER BY m.ordinal;
