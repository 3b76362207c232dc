-- Return what the conditions of a rule read of the spans of some traces, trace by trace, by start.
SELECT $columns, epoch_ns(start_time) AS start_ns
FROM $source
SEMI JOIN wanted_traces USING (tenant, trace_id)
ORDER BY tenant, trace_id, start_time, span_id;
