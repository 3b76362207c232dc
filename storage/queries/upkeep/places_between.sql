-- Return the row ids in a range of a table, in their order.
SELECT rowid AS place
FROM $table
WHERE rowid BETWEEN $first AND $last;
