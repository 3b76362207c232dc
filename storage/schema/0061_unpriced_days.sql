-- Calls of judges whose cost is unknown, of results whose traces have left: 0 of those that left before this step.
ALTER TABLE evaluation_day ADD COLUMN unpriced_calls BIGINT DEFAULT 0;
