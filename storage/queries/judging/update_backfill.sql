-- Record the progress of a backfill, if it is at the expected position. At its end its trace ids are deleted, their
-- count is kept.
UPDATE backfill SET
    after_seq = $after_seq,
    until_seq = $until_seq,
    looked_at = looked_at + $looked_at,
    matched = matched + $matched,
    "state" = $state,
    error = $error,
    trace_ids = CASE WHEN $state = 'running' THEN trace_ids ELSE list_transform(trace_ids, lambda trace_id: '') END,
    updated_at = make_timestamp($now_us)
WHERE backfill_id = $backfill_id AND "state" = 'running' AND after_seq = $was_after;
