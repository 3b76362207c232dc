-- Return the items that were added, removed and changed between two versions of a dataset, in the order of the later
-- version, then of the earlier one.
WITH before AS (
    SELECT m.ordinal, i.*
    FROM dataset_member AS m
    INNER JOIN dataset_item AS i USING (item_key)
    WHERE m.version_key = $earlier_key
),
after AS (
    SELECT m.ordinal, i.*
    FROM dataset_member AS m
    INNER JOIN dataset_item AS i USING (item_key)
    WHERE m.version_key = $later_key
)
SELECT
    CASE WHEN b.item_id IS NULL THEN 'ADDED' WHEN a.item_id IS NULL THEN 'REMOVED' ELSE 'CHANGED' END AS status,
    coalesce(a.item_id, b.item_id) AS item_id,
    b.inputs AS inputs_before,
    b.expected_outputs AS expected_before,
    b.metadata AS metadata_before,
    a.inputs AS inputs_after,
    a.expected_outputs AS expected_after,
    a.metadata AS metadata_after,
    count(*) OVER () AS "total"
FROM after AS a
FULL JOIN before AS b ON b.item_id = a.item_id
WHERE a.digest IS DISTINCT FROM b.digest
ORDER BY a.ordinal NULLS LAST, b.ordinal
LIMIT $changes
OFFSET $skip;
