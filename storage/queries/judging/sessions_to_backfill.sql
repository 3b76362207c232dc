-- Return the sessions of these spans that have settled, with all of their traces.
SELECT (row_number() OVER () - 1)::BIGINT AS trace, tenant, session_id
FROM (
    SELECT DISTINCT r.tenant, r.session_id
    FROM trace_reading AS r
    SEMI JOIN (
        SELECT DISTINCT tenant, trace_id
        FROM span
        WHERE seq > $after AND seq <= $until
            AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
            AND start_time >= make_timestamp_ns($from_ns) AND start_time < make_timestamp_ns($to_ns)
            AND ($trace_ids::VARCHAR[] IS NULL OR list_contains($trace_ids::VARCHAR[], trace_id))
    ) AS s ON s.tenant = r.tenant AND s.trace_id = r.trace_id
    WHERE r.session_id IS NOT NULL
)
ANTI JOIN session_open USING (tenant, session_id);
