-- Return the traces in the lake with a part between two instants, in the order of the first of these parts by number,
-- after a number.
SELECT tenant, trace_id, min(write_number) AS first_number, max(write_number) AS write_number
FROM trace_part
WHERE last_start_time >= make_timestamp_ns($from_ns::BIGINT)
    AND start_time < make_timestamp_ns($to_ns::BIGINT)
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
GROUP BY tenant, trace_id
HAVING min(write_number) > $after
ORDER BY first_number;
