-- Spans by their numbers, as far as they fit; between the least and the greatest of them, so that row groups are
-- skipped.
SELECT *
FROM span
SEMI JOIN wanted_spans USING (seq)
WHERE seq BETWEEN $first AND $last
LIMIT $rows;
