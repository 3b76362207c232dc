-- Write rows of a table again, so that their row group can be freed. Rows with other numbers are skipped.
INSERT INTO $table
SELECT *
FROM $table
WHERE rowid BETWEEN $first AND $last AND seq BETWEEN $first_seq AND $last_seq;
