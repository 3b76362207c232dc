-- Return the settled traces of these spans.
SELECT
    (row_number() OVER () - 1)::BIGINT AS trace,
    tenant,
    trace_id,
    ('0x' || trace_id[17:])::UBIGINT AS trace_key
FROM (
    SELECT DISTINCT tenant, trace_id
    FROM span
    WHERE seq > $after AND seq <= $until
        AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
        AND start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns)
        AND ($trace_ids::VARCHAR[] IS NULL OR list_contains($trace_ids::VARCHAR[], trace_id))
)
ANTI JOIN trace_open USING (tenant, trace_id);
