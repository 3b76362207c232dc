-- Return the row ids of a table about leaving traces, if there are no bounds for the search.
SELECT t.rowid AS place
FROM $table AS t
SEMI JOIN leaving_traces AS l ON l.tenant = t.tenant AND l.trace_id = t.trace_id;
