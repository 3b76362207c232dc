-- Where the readings of the spans of the wanted traces are.
SELECT rowid
FROM reading
WHERE seq IN (SELECT seq FROM span SEMI JOIN leaving_traces USING (tenant, trace_id));
