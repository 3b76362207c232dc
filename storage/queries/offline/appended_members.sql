-- Return the items of the next version: those of the version before, with the changes of the request, followed by new
-- items.
WITH wanted AS (
    SELECT w.ordinal, i.item_key, w.item_id, w.digest
    FROM wanted_items AS w
    INNER JOIN (
        SELECT item_id, digest, min(item_key) AS item_key
        FROM dataset_item
        WHERE dataset_id = $dataset_id
        GROUP BY item_id, digest
    ) AS i USING (item_id, digest)
),
before AS (
    SELECT m.ordinal, m.item_key, i.item_id, i.digest
    FROM dataset_member AS m
    INNER JOIN dataset_item AS i USING (item_key)
    WHERE m.version_key = $version_key
)
SELECT
    (row_number() OVER (ORDER BY part, ordinal) - 1)::INTEGER AS ordinal,
    item_key,
    item_id,
    digest
FROM (
    SELECT
        0 AS part,
        b.ordinal,
        coalesce(w.item_key, b.item_key) AS item_key,
        b.item_id,
        coalesce(w.digest, b.digest) AS digest
    FROM before AS b
    LEFT JOIN wanted AS w USING (item_id)
    UNION ALL
    SELECT 1 AS part, w.ordinal, w.item_key, w.item_id, w.digest
    FROM wanted AS w
    ANTI JOIN before USING (item_id)
);
