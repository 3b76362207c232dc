-- How many rows are in each part of a stretch of a table, where a part has so many places.
SELECT rowid // $places AS part, count(*)
FROM $table
WHERE rowid BETWEEN $first AND $last
GROUP BY part;
