-- All parts of the traces that changed. OFFSET 0 prevents conditions of the caller from being applied to all parts
-- before these few are selected.
CREATE OR REPLACE VIEW changed_part AS
SELECT *
FROM trace_part
SEMI JOIN changed_trace USING (trace_key)
OFFSET 0;
