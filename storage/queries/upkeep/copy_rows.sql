-- Write rows of a table once more, so that the place where they are can be given up.
INSERT INTO $table
SELECT *
FROM $table
WHERE rowid BETWEEN $first AND $last;
