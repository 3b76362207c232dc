-- Return the traces in the lake all of whose parts there have expired, and which are neither pinned nor here.
SELECT tenant, trace_id, min(batch) AS first_batch, max(batch) AS last_batch
FROM lake_parts
ANTI JOIN lake_alive USING (tenant, trace_id)
ANTI JOIN trace_pin USING (tenant, trace_id)
ANTI JOIN trace_part USING (tenant, trace_id)
GROUP BY tenant, trace_id;
