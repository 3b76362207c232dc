-- End a backfill that is running.
UPDATE backfill SET "state" = $state, error = $error, updated_at = make_timestamp($now_us)
WHERE backfill_id = $backfill_id AND "state" = 'running';
