-- Count the rows in each part of a range of a table; a part has a fixed number of row ids.
SELECT rowid // $places AS part, count(*)
FROM $table
WHERE rowid BETWEEN $first AND $last
GROUP BY part;
