-- Traces by their ids. Their keys alone, which come as one text, are looked at in all parts; of the parts that have one,
-- the view `trace_roll_up` is asked by its text.
WITH changed_part AS MATERIALIZED (
    SELECT *
    FROM tracejury.trace_part
    WHERE rowid IN (SELECT rowid FROM tracejury.trace_part WHERE trace_key IN (SELECT unnest(string_split($keys, ',')::UBIGINT[])))
),
found AS (
    $roll_up
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
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, '')) AND list_contains(string_split($ids, ','), trace_id);
