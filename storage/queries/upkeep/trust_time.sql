-- Record that the clock is right.
UPDATE trusted_time SET
    trusted_at = make_timestamp($at_us::BIGINT),
    boot_id = $boot_id,
    uptime_us = $uptime_us;
