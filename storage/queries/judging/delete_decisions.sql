-- Delete decisions of some revisions about traces with these spans between two numbers, except final ones; they are
-- decided again.
DELETE FROM decision
WHERE list_contains($revisions::INTEGER[], revision)
    AND seq BETWEEN $first AND $last
    AND seq IN (SELECT seq FROM earlier_spans)
    AND (revision, seq) NOT IN (
        SELECT (f.revision, s.seq) FROM final_decisions AS f INNER JOIN earlier_spans AS s ON s.trace = f.trace
    );
