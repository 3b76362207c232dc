-- Delete the versions of a dataset.
DELETE FROM dataset_version WHERE dataset_id = $dataset_id;
