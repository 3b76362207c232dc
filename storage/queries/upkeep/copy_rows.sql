-- Write rows of a table again, so that their row group can be freed.
INSERT INTO $table
SELECT *
FROM $table
WHERE rowid BETWEEN $first AND $last;
