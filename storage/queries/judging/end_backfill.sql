-- End a running backfill. Its trace ids are deleted, their count is kept.
UPDATE backfill SET
    "state" = $state,
    error = $error,
    trace_ids = list_transform(trace_ids, lambda trace_id: ''),
    updated_at = make_timestamp($now_us)
WHERE backfill_id = $backfill_id AND "state" = 'running';
