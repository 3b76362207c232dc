-- Pause an unfinished evaluation until an instant.
UPDATE run_evaluation SET
    continues_at = make_timestamp($until_us::BIGINT),
    error = $reason
WHERE evaluation_id = $evaluation_id
    AND "state" IN ('waiting', 'running')
RETURNING evaluation_id;
