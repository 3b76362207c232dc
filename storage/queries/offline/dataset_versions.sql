-- Return versions of a dataset, newest first, or only $version.
SELECT
    v.* EXCLUDE (tenant, created_at),
    epoch_us(v.created_at) * 1000 AS created_at_ns
FROM dataset_version AS v
WHERE v.dataset_id = $dataset_id
    AND ($version::INTEGER IS NULL OR v.version = $version)
ORDER BY v.version DESC
LIMIT $versions
OFFSET $skip;
