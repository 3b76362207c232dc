-- Record a sign of life of a run.
UPDATE run SET reported_at = make_timestamp($now_us::BIGINT) WHERE run_id = $run_id;
