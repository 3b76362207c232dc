-- Decide on each trace by each rule, from the results for parts of its spans.
SELECT
    f.revision,
    t.seq,
    CASE
        WHEN bool_or(f.is_undecided) THEN 3
        WHEN NOT bool_or(f.holds) THEN 0
        WHEN /* sampled */ THEN 2
        ELSE 1
    END::UTINYINT AS outcome,
    CASE WHEN outcome = 0 THEN max(f.clause) END AS clause,
    t.trace
FROM found AS f
INNER JOIN traces AS t ON t.trace = f.trace
INNER JOIN sampling AS s ON s.revision = f.revision
GROUP BY f.revision, t.trace, t.seq, t.trace_id, s.sampled_below
ORDER BY t.seq, f.revision;
