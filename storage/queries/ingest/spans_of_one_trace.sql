-- Return the spans of one trace; bounds as in `spans_of_traces`. The ids as constants let DuckDB
-- discard rows before it reads their other columns, which takes two thirds of the time.
SELECT *
FROM span
WHERE tenant = $tenant
    AND trace_id = $trace_id
    AND start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND batch BETWEEN $first_batch AND $last_batch
LIMIT $rows;
