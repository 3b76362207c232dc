-- Where the rows of the wanted traces are in a table that has their ids.
SELECT rowid
FROM $table
SEMI JOIN leaving_traces USING (tenant, trace_id);
