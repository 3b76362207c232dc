-- Note that something was heard of a run.
UPDATE run SET reported_at = make_timestamp($now_us::BIGINT) WHERE run_id = $run_id;
