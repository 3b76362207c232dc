-- Return the least and the greatest number of the rows in a range of a table, and the count of rows without one.
SELECT min(seq), max(seq), count(*) - count(seq)
FROM $table
WHERE rowid BETWEEN $first AND $last;
