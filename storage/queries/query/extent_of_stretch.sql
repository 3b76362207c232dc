-- When the last span starts of the traces that have a part in a stretch of time, and which commits brought these.
SELECT epoch_ns(max(last_start_time)), min(batch), max(batch)
FROM trace_part
WHERE start_time > make_timestamp_ns($floor_ns)
    AND trace_key IN (
        SELECT trace_key
        FROM trace_part
        WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns)
    );
