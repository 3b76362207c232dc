-- The numbers of the spans that were committed after one and up to another, in the order of their commits.
SELECT seq
FROM span
WHERE seq > $after AND seq <= $until
LIMIT $rows;
