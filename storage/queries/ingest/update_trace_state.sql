-- Record up to which commit all traces are added up.
UPDATE trace_state SET batch = greatest(batch, $batch);
