-- Queue a delivery again with all its attempts, unless it is pending.
UPDATE alert_delivery
SET
    "state" = 'pending',
    attempts = 0,
    replays = replays + 1,
    not_before = make_timestamp($at_us::BIGINT),
    finished_at = NULL
WHERE webhook_id = $webhook_id AND delivery_id = $delivery_id AND "state" NOT IN ('pending', 'gathered')
RETURNING delivery_id;
