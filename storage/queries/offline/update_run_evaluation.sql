-- Record the progress of an unfinished evaluation.
UPDATE run_evaluation SET
    "state" = $state,
    error = $error,
    ended_at = CASE WHEN $state != 'running' THEN make_timestamp($now_us::BIGINT) END
WHERE evaluation_id = $evaluation_id
    AND "state" IN ('waiting', 'running')
RETURNING evaluation_id;
