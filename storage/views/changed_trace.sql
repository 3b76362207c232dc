-- The keys of the traces that later commits changed than are added up. The numbers of these commits are listed, as DuckDB
-- looks only at the row groups that have some of them.
CREATE OR REPLACE VIEW changed_trace AS
SELECT tenant, trace_key
FROM trace_part
SEMI JOIN (
    SELECT unnest(range(s.batch + 1, i.batch + 1)) AS batch
    FROM trace_state AS s, ingest_state AS i
) USING (batch);
