-- Return the row ids of a table about leaving spans. The bounds let row groups be skipped.
SELECT rowid AS place
FROM $table
WHERE seq BETWEEN $first_seq AND $last_seq AND seq IN (SELECT seq FROM leaving_spans);
