-- Record the outcome of an attempt; a failure only while the delivery is still pending.
UPDATE alert_delivery
SET
    "state" = $state,
    attempts = attempts + 1,
    not_before = make_timestamp($next_us::BIGINT),
    last_attempt_at = make_timestamp($at_us::BIGINT),
    last_status = $status,
    last_error = $error,
    finished_at = CASE WHEN $state <> 'pending' THEN make_timestamp($at_us::BIGINT) END
WHERE delivery_id = $delivery_id AND replays = $replays AND ("state" = 'pending' OR $state = 'delivered')
RETURNING delivery_id;
