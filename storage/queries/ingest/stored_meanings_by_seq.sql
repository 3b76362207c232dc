-- Select spans by their numbers. The least and the greatest number let row groups be skipped.
SELECT *
FROM span
SEMI JOIN wanted_spans USING (seq)
WHERE seq BETWEEN $first AND $last;
