-- End a running run.
UPDATE run SET
    "state" = $state,
    state_reason = $reason,
    reported_at = make_timestamp($now_us::BIGINT),
    completed_at = make_timestamp($now_us::BIGINT)
WHERE run_id = $run_id
    AND "state" = 'RUNNING'
RETURNING run_id;
