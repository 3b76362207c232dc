-- Delete which items the versions of a dataset have.
DELETE FROM dataset_member
WHERE version_key IN (SELECT version_key FROM dataset_version WHERE dataset_id = $dataset_id);
