-- Return the decisions of each rule revision about a session with these traces, whose numbers lie between two. Matches
-- come first.
SELECT
    v.rule_id,
    d.rule,
    d.revision,
    v.digest,
    d.span_id,
    d.decision,
    d.clause,
    epoch_ns(d.decided_at) AS decided_at_ns
FROM decisions AS d
INNER JOIN rule_revision AS v ON v.revision = d.revision
WHERE d.seq BETWEEN $first_seq AND $last_seq AND d.tenant = $tenant AND d.trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
    AND d.session_id = $session_id
ORDER BY d.decision IN ('filtered', 'sampled_out', 'unflagged'), d.revision, d.seq
LIMIT $rows;
