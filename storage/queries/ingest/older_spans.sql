-- Some spans that were read by another edition of the conventions than one.
SELECT *
FROM span
WHERE edition IS DISTINCT FROM $edition
LIMIT $rows;
