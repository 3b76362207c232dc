-- What the attempts of a job took that were made before it was put back, so that its result carries the cost of all.
ALTER TABLE job ADD COLUMN judge_calls INTEGER;
ALTER TABLE job ADD COLUMN input_tokens BIGINT;
ALTER TABLE job ADD COLUMN output_tokens BIGINT;
ALTER TABLE job ADD COLUMN cost_usd DOUBLE;
