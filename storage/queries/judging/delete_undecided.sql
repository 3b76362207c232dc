-- Forget that a revision could not be asked about what it has decided about now, which lies between two numbers.
DELETE FROM decision
WHERE outcome = 3 AND revision = $revision
    AND seq BETWEEN $first AND $last
    AND seq IN (SELECT seq FROM incoming_decisions);
