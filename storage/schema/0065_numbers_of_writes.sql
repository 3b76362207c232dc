-- The place of a row among all writes, so that what is written, or changed, after a number can be read in order: one
-- thread writes, so a number that is committed later is greater. Results have a number that grows already (`number`).
-- Rows of before this step are numbered in the order in which they are stored.
CREATE SEQUENCE write_number;
ALTER TABLE span ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE log_record ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE trace_part ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE decision ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE trace_reading ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE tool_call ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE superseded ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE review_entry ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
ALTER TABLE judge_call ADD COLUMN write_number BIGINT DEFAULT nextval('write_number');
