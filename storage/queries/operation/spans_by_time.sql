-- How many spans came in each stretch of time since an instant; none where none came.
SELECT (epoch_us(received_at) - $since_us::BIGINT) // $step_us::BIGINT AS stretch, count(*)
FROM span
WHERE received_at >= make_timestamp($since_us::BIGINT)
GROUP BY stretch;
