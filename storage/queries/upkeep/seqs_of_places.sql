-- Between which numbers the rows of a stretch of a table are, and how many have none.
SELECT min(seq), max(seq), count(*) - count(seq)
FROM $table
WHERE rowid BETWEEN $first AND $last;
