-- Return the keys of those of some traces that began after the boundary, so that none of their rows moved.
SELECT DISTINCT trace_key
FROM tracejury.main.trace_part
WHERE trace_key IN (SELECT unnest(string_split($keys, ',')::UBIGINT[]))
    AND start_time >= make_timestamp_ns($day_ns::BIGINT);
