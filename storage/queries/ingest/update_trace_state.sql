-- Record the commit up to which all traces are aggregated.
UPDATE trace_state SET batch = greatest(batch, $batch);
