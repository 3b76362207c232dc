-- Return the running backfills, oldest first.
SELECT
    backfill_id,
    revision,
    epoch_ns(from_time) AS from_ns,
    epoch_ns(to_time) AS to_ns,
    trace_ids,
    occasion,
    after_seq,
    until_seq,
    looked_at,
    matched,
    "state",
    error,
    epoch_ns(created_at) AS created_at_ns,
    epoch_ns(updated_at) AS updated_at_ns
FROM backfill
WHERE "state" = 'running'
ORDER BY created_at, backfill_id;
