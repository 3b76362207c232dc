-- Delete "undecided" and "not called for" decisions of a revision that has decided by now, between two numbers.
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
