-- Remember traces that are to be added up later.
INSERT INTO trace_due BY NAME
SELECT tenant, trace_id
FROM incoming_due;
