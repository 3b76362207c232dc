-- Why the answer of a model ended: stop, length, tool_call, content_filter, error or other. NULL until spans
-- that an earlier edition read are read again, and their traces added up.
ALTER TABLE span ADD COLUMN finish_reason VARCHAR;
ALTER TABLE trace_reading ADD COLUMN finish_reason VARCHAR;
