-- Spans that were committed after one and up to another, in the order of their commits; reading ends where it is ended.
SELECT *
FROM span
WHERE seq > $after AND seq <= $until
LIMIT $rows;
