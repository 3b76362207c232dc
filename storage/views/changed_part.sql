-- All parts of the traces that changed. OFFSET 0 keeps conditions of the asker from being looked at in all parts, before
-- these few are picked.
CREATE OR REPLACE VIEW changed_part AS
SELECT *
FROM trace_part
SEMI JOIN changed_trace USING (trace_key)
OFFSET 0;
