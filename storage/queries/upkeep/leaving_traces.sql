-- Return the selected traces that are forced out, or have expired with all their parts and are not pinned, with bounds
-- for the search of their rows.
SELECT
    p.tenant,
    p.trace_id,
    p.trace_key,
    min(p.batch) AS first_batch,
    max(p.batch) AS last_batch,
    epoch_ns(min(p.start_time)) AS first_start_ns,
    epoch_ns(greatest(max(p.last_start_time), max(p.end_time))) AS end_ns
FROM trace_part AS p
SEMI JOIN wanted_traces AS w ON w.trace_key = p.trace_key AND w.tenant = p.tenant AND w.trace_id = p.trace_id
WHERE $in_any_case
    OR NOT EXISTS (SELECT 1 FROM trace_pin AS k WHERE k.tenant = p.tenant AND k.trace_id = p.trace_id)
GROUP BY p.tenant, p.trace_id, p.trace_key
HAVING $in_any_case OR max(p.expires_at) < make_timestamp($cutoff_us)
ORDER BY first_batch;
