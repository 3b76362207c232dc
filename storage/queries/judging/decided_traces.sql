-- Traces about which a revision has decided, by their spans, which lie between two numbers: for good, since what
-- another rule's result did not call for is decided about again.
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
