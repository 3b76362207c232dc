-- Delete the membership of items in versions of a dataset.
DELETE FROM dataset_member
WHERE version_key IN (SELECT version_key FROM dataset_version WHERE dataset_id = $dataset_id);
