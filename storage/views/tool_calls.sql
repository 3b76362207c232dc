-- Tool calls, one row each, however often spans and messages repeat them, ordered within a trace by `ordinal`. A
-- result that only a later trace received is stored with the call.
CREATE OR REPLACE VIEW tool_calls AS
SELECT
    tenant,
    trace_id,
    span_id,
    ordinal,
    call_id,
    "name",
    arguments,
    result,
    is_error,
    error,
    start_time,
    CASE
        WHEN epoch_ns(end_time) <> 0 AND epoch_ns(start_time) <> 0
            THEN (epoch_ns(end_time)::HUGEINT - epoch_ns(start_time)) / 1e6
    END AS duration_ms
FROM tool_call
WHERE is_sent = false; -- as `NOT is_sent` skips no row groups
