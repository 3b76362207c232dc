-- The numbers of the spans that are stored, between two of them.
SELECT seq
FROM span
WHERE seq BETWEEN $first AND $last;
