-- Delete which scores of a run no longer count.
DELETE FROM superseded_score WHERE run_id = $run_id;
