-- Return the numbers of those spans to remove about which the database has jobs, decisions or results: they came after
-- the span moved.
SELECT DISTINCT seq
FROM (
    SELECT seq FROM job WHERE seq < $first_seq
    UNION ALL
    SELECT seq FROM decision WHERE seq < $first_seq
    UNION ALL
    SELECT seq FROM evaluation WHERE seq < $first_seq
)
SEMI JOIN lake_spans USING (seq);
