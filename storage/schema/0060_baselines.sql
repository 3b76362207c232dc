-- Why a backfill judges: 'backfill' of history, which monitors do not count, or 'baseline', to compare with after an
-- edit of the evaluator.
ALTER TABLE backfill ADD COLUMN occasion VARCHAR DEFAULT 'backfill';
