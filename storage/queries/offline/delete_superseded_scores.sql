-- Delete the marks of superseded scores of a run.
DELETE FROM superseded_score WHERE run_id = $run_id;
