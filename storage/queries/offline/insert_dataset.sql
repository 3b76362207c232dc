-- Insert a dataset, unless its tenant has one with that name.
INSERT INTO dataset BY NAME
SELECT
    $tenant AS tenant,
    $dataset_id AS dataset_id,
    $name AS "name",
    $description AS description,
    $tags::VARCHAR[] AS tags,
    $input_schema AS input_schema,
    $expected_schema AS expected_schema,
    1 AS "version",
    make_timestamp($now_us::BIGINT) AS created_at,
    make_timestamp($now_us::BIGINT) AS updated_at
WHERE NOT EXISTS (SELECT 1 FROM dataset WHERE tenant = $tenant AND "name" = $name AND deleted_at IS NULL)
RETURNING dataset_id;
