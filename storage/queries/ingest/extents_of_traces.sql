-- How many spans the wanted traces have, when those start, and which commits brought them. Parts are found by the key
-- alone, which is a tenth of what an id is to read.
WITH found AS MATERIALIZED (
    SELECT p.*
    FROM trace_part AS p
    SEMI JOIN wanted_traces AS w ON w.trace_key = p.trace_key
)
SELECT
    tenant,
    trace_id,
    sum(span_count)::BIGINT AS span_count,
    epoch_ns(min(start_time)) AS first_start_ns,
    epoch_ns(max(last_start_time)) AS last_start_ns,
    min(batch) AS first_batch,
    max(batch) AS last_batch
FROM found
SEMI JOIN wanted_traces USING (tenant, trace_id)
GROUP BY tenant, trace_id;
