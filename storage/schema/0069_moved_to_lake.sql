-- How many traces have moved under each name, and spans (and other rows, without a trace). NULL: some, of an earlier
-- version. While nothing has moved, the lake may be anywhere; from then on it has the only rows of something.
ALTER TABLE lake_boundary ADD COLUMN traces BIGINT;
ALTER TABLE lake_boundary ADD COLUMN spans BIGINT;
