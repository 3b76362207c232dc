-- Forget that a revision could not be asked about what it has decided about now, which lies between two numbers, or
-- that no result of another rule called for it.
DELETE FROM decision
WHERE revision = $revision
    AND seq BETWEEN $first AND $last
    AND seq IN (SELECT seq FROM incoming_decisions)
    AND (
        outcome = 3
        OR (
            outcome = 2
            AND EXISTS (
                SELECT 1 FROM rule_revision WHERE revision = $revision AND (document ->> '$.after.rule') IS NOT NULL
            )
            AND seq NOT IN (SELECT seq FROM job WHERE revision = $revision)
            AND seq NOT IN (SELECT seq FROM evaluation WHERE revision = $revision AND seq BETWEEN $first AND $last)
        )
    );
