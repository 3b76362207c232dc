-- Delete some rows of a run, those with the lowest numbers first.
DELETE FROM run_score
WHERE run_id = $run_id
    AND score_number IN (
        SELECT score_number FROM run_score WHERE run_id = $run_id ORDER BY score_number LIMIT $rows
    );
