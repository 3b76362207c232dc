-- Return when the last span of the traces with a part in a time range starts, and their commits.
SELECT epoch_ns(max(last_start_time)), min(batch), max(batch)
FROM trace_part
WHERE start_time > make_timestamp_ns($floor_ns)
    AND trace_key IN (
        SELECT trace_key
        FROM trace_part
        WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns)
    );
