-- Insert the items of a version.
INSERT INTO dataset_member BY NAME
SELECT $version_key AS version_key, ordinal, item_key
FROM next_member
ORDER BY ordinal;
