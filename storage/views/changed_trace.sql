-- The keys of the traces that commits after the aggregated ones changed. The commit numbers are listed, because DuckDB
-- then reads only the row groups that contain them.
CREATE OR REPLACE VIEW changed_trace AS
SELECT tenant, trace_key
FROM trace_part
SEMI JOIN (
    SELECT unnest(range(s.batch + 1, i.batch + 1)) AS batch
    FROM trace_state AS s, ingest_state AS i
) USING (batch);
