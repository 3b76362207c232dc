-- Rows of a table by their numbers.
SELECT *
FROM $table
WHERE $number BETWEEN $first AND $last;
