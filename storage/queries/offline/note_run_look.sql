-- Note that it was looked at a run whether it is worse.
UPDATE run SET looked_at = make_timestamp($at_us::BIGINT) WHERE run_id = $run_id;
