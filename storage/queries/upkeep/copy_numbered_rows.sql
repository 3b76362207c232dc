-- Write rows of a table once more, so that the place where they are can be given up: what has other numbers need not be
-- looked at.
INSERT INTO $table
SELECT *
FROM $table
WHERE rowid BETWEEN $first AND $last AND seq BETWEEN $first_seq AND $last_seq;
