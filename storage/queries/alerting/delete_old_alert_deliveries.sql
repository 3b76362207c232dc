-- Delete deliveries that finished before an instant.
DELETE FROM alert_delivery WHERE finished_at < make_timestamp($before_us::BIGINT);
