-- Return traces by their ids, which are passed as one text. All parts are searched by key; only those with a matching
-- key are read through the view `trace_roll_up`.
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
    epoch_ns(start_time) AS first_start_ns,
    epoch_ns(end_time),
    span_count,
    error_count,
    epoch_ns(expires_at),
    epoch_ns(last_start_time),
    first_batch,
    last_batch
FROM found
WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, '')) AND list_contains(string_split($ids, ','), trace_id);
