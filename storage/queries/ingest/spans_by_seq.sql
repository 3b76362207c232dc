-- Return spans by their numbers, up to a size. The least and the greatest number let row groups be skipped.
SELECT *
FROM span
SEMI JOIN wanted_spans USING (seq)
WHERE seq BETWEEN $first AND $last
LIMIT $rows;
