-- Count the items of the next version, and those that are new, changed, removed and moved compared with the version
-- before.
WITH before AS (
    SELECT m.ordinal, i.item_id, i.digest
    FROM dataset_member AS m
    INNER JOIN dataset_item AS i USING (item_key)
    WHERE m.version_key = $version_key
)
SELECT
    count(n.item_id) AS items,
    count(*) FILTER (b.item_id IS NULL) AS added,
    count(*) FILTER (n.item_id IS NULL) AS removed,
    count(*) FILTER (n.digest != b.digest) AS changed,
    count(*) FILTER (n.ordinal != b.ordinal) AS moved
FROM next_member AS n
FULL JOIN before AS b USING (item_id);
