-- Return the number and the key of the latest version of a dataset.
SELECT "version", version_key
FROM dataset_version
WHERE dataset_id = $dataset_id
ORDER BY "version" DESC
LIMIT 1;
