-- Return the bounds of the commits and of the times, in nanoseconds, of traces to remove, of their parts in the lake.
SELECT min(p.batch), max(p.batch), min(p.start_time), max(greatest(p.last_start_time, coalesce(p.end_time, 0)))
FROM lake_parts AS p
SEMI JOIN lake_traces AS t ON t.tenant = p.tenant AND t.trace_id = p.trace_id;
