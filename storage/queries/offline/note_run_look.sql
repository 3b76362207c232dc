-- Record when a run was last checked for regressions.
UPDATE run SET looked_at = make_timestamp($at_us::BIGINT) WHERE run_id = $run_id;
