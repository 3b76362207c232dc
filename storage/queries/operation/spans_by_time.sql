-- Count the spans that arrived in each time step since an instant; empty steps are omitted.
SELECT (epoch_us(received_at) - $since_us::BIGINT) // $step_us::BIGINT AS stretch, count(*)
FROM span
WHERE received_at >= make_timestamp($since_us::BIGINT)
GROUP BY stretch;
