-- When an evaluation of a run continues whose judge asked for a pause, so that a restart keeps it. NULL: at once.
ALTER TABLE run_evaluation ADD COLUMN continues_at TIMESTAMP;
