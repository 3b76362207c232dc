-- Pin or unpin a run.
UPDATE run SET pinned_at = CASE WHEN $keep THEN coalesce(pinned_at, make_timestamp($now_us::BIGINT)) END
WHERE run_id = $run_id
RETURNING run_id;
