-- Insert a version of a dataset.
INSERT INTO dataset_version BY NAME
SELECT
    $tenant AS tenant,
    $dataset_id AS dataset_id,
    $version AS "version",
    (SELECT coalesce(max(version_key), 0) FROM dataset_version) + 1 AS version_key,
    $description AS description,
    $items AS item_count,
    $added AS added,
    $removed AS removed,
    $changed AS changed,
    $created_by AS created_by,
    make_timestamp($now_us::BIGINT) AS created_at
RETURNING version_key;
