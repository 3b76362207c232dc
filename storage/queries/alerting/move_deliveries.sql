-- Shift the times of pending deliveries and digests after the machine's clock was set.
UPDATE alert_delivery
SET
    not_before = not_before + to_microseconds($by_us::BIGINT),
    created_at = created_at + to_microseconds($by_us::BIGINT),
    last_attempt_at = last_attempt_at + to_microseconds($by_us::BIGINT)
WHERE "state" IN ('pending', 'gathered') AND coalesce(last_attempt_at, created_at) <= make_timestamp($before_us::BIGINT);
