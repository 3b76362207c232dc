-- Traces by their ids. Their keys alone choose what is read: of several filters DuckDB may begin with the dearest. Each
-- $keys and $ids is a `?` for each trace.
WITH found AS MATERIALIZED (
    SELECT * FROM trace_roll_up WHERE trace_key IN ($keys)
)
SELECT
    trace_id,
    tenant,
    project,
    service_name,
    root_name,
    epoch_ns(start_time),
    epoch_ns(end_time),
    span_count,
    error_count,
    epoch_ns(expires_at),
    epoch_ns(last_start_time),
    first_batch,
    last_batch
FROM found
WHERE (?::VARCHAR IS NULL OR tenant IN (?, '')) AND trace_id IN ($ids);
