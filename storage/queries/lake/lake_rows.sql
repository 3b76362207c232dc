-- Return the rows of a table in a range of numbers.
SELECT *
FROM $table
WHERE $number BETWEEN $first AND $last;
