-- Delete rows of a table by their place.
DELETE FROM $table
WHERE rowid BETWEEN $first AND $last;
