-- Return the arrivals of each trace, of some tenants or of all.
SELECT
    tenant,
    trace_id,
    bool_or(is_root AND has_ended) AS root_ended,
    count(*) AS span_count,
    max(seq) AS last_seq
FROM looked_at
WHERE $tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant)
GROUP BY tenant, trace_id;
