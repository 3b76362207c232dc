-- End runs without a sign of life for too long.
UPDATE run SET
    "state" = 'CANCELLED',
    state_reason = 'abandoned: nothing was reported for ' || idle_s || ' s',
    completed_at = make_timestamp($now_us::BIGINT)
WHERE "state" = 'RUNNING'
    AND epoch_us(reported_at) + idle_s * 1000000 < $now_us
RETURNING run_id;
