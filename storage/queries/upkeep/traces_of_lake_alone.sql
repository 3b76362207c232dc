-- Return those of these traces of the lake of which the database has no part.
SELECT tenant, trace_id
FROM lake_leaving
ANTI JOIN trace_part USING (tenant, trace_id);
