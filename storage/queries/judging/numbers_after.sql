-- Return the numbers of the spans committed after one number and up to another, in the order of commits.
SELECT seq
FROM span
WHERE seq > $after AND seq <= $until
LIMIT $rows;
