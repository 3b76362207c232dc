-- Say which items a version has.
INSERT INTO dataset_member BY NAME
SELECT $version_key AS version_key, ordinal, item_key
FROM next_member
ORDER BY ordinal;
