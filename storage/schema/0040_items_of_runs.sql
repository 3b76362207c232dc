-- For which item of which run of an experiment a span is; NULL for all others.
ALTER TABLE span ADD COLUMN run_id VARCHAR;
ALTER TABLE span ADD COLUMN item_key VARCHAR;
