-- Return those of these traces of the lake of which the database has a part: they began again.
SELECT DISTINCT tenant, trace_id
FROM trace_part
SEMI JOIN lake_leaving USING (tenant, trace_id);
