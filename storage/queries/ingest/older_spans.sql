-- Return some spans that another edition of the conventions read.
SELECT *
FROM span
WHERE edition IS DISTINCT FROM $edition
LIMIT $rows;
