-- Delete rows of a table by row id.
DELETE FROM $table
WHERE rowid BETWEEN $first AND $last;
