-- Return traces with a final decision of a revision, by their spans between two numbers. Decisions "not called for"
-- are not final.
SELECT DISTINCT w.trace
FROM decision AS d
INNER JOIN wanted_spans AS w ON w.seq = d.seq
WHERE d.outcome <> 3 AND d.revision = $revision AND d.seq BETWEEN $first AND $last
    AND NOT (
        d.outcome = 2
        AND EXISTS (
            SELECT 1 FROM rule_revision WHERE revision = $revision AND (document ->> '$.after.rule') IS NOT NULL
        )
        AND d.seq NOT IN (SELECT seq FROM job WHERE revision = $revision)
        AND d.seq NOT IN (SELECT seq FROM evaluation WHERE revision = $revision AND seq BETWEEN $first AND $last)
    );
