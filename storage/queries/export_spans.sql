-- Spans that start between two instants, the latter excluded, with what they mean.
SELECT *
FROM spans
WHERE start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns) 
    AND ($tenant IS NULL OR tenant IN ($tenant, ''));
