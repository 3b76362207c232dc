-- Where the rows of a stretch of a table are, in their order.
SELECT rowid AS place
FROM $table
WHERE rowid BETWEEN $first AND $last;
