-- Return the keys of those of some traces that have no rows in the lake alone: they stayed, or began after the boundary.
SELECT DISTINCT trace_key
FROM tracejury.main.trace_part
WHERE trace_key IN (SELECT unnest(string_split($keys, ',')::UBIGINT[]))
    AND (batch < $first_batch OR start_time >= make_timestamp_ns($day_ns::BIGINT));
