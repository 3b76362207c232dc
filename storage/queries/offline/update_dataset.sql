-- Update the description of a dataset if its version is unchanged.
UPDATE dataset SET
    description = $description,
    tags = $tags::VARCHAR[],
    input_schema = $input_schema,
    expected_schema = $expected_schema,
    "version" = "version" + 1,
    updated_at = make_timestamp($now_us::BIGINT)
WHERE dataset_id = $dataset_id
    AND deleted_at IS NULL
    AND "version" = $version
RETURNING "version";
