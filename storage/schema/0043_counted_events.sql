-- Scores that come as events count in monitors where a rule says so: up to which commit they were looked at, -1 before the
-- first look, for which all that came is history.
ALTER TABLE score_state ADD COLUMN batch BIGINT DEFAULT -1;
