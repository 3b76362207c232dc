-- The numbers of the next rows of a table, in their order.
SELECT $number AS number
FROM $table
WHERE $number > $after
ORDER BY number
LIMIT $rows;
