-- Return the backfills of a rule, newest first.
SELECT
    b.backfill_id,
    b.revision,
    epoch_ns(b.from_time) AS from_ns,
    epoch_ns(b.to_time) AS to_ns,
    b.trace_ids,
    b.occasion,
    b.after_seq,
    b.until_seq,
    b.looked_at,
    b.matched,
    b.state,
    b.error,
    epoch_ns(b.created_at) AS created_at_ns,
    epoch_ns(b.updated_at) AS updated_at_ns
FROM backfill AS b
JOIN rule_revision AS r USING (revision)
WHERE r.rule_id = $rule_id
ORDER BY b.created_at DESC, b.backfill_id;
