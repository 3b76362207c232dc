-- Mark a dataset as deleted and erase its descriptions, if its version is unchanged.
UPDATE dataset SET
    description = '',
    tags = [],
    input_schema = NULL,
    expected_schema = NULL,
    "version" = "version" + 1,
    updated_at = make_timestamp($now_us::BIGINT),
    deleted_at = make_timestamp($now_us::BIGINT)
WHERE dataset_id = $dataset_id
    AND deleted_at IS NULL
    AND "version" = $version
RETURNING "version";
