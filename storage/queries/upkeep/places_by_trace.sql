-- Where the rows of a table are that are about traces that leave, and of nothing that bounds the look.
SELECT t.rowid AS place
FROM $table AS t
SEMI JOIN leaving_traces AS l ON l.tenant = t.tenant AND l.trace_id = t.trace_id;
