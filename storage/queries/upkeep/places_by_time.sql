-- Return the row ids of a table about leaving traces. The bounds let row groups be skipped.
SELECT t.rowid AS place
FROM $table AS t
SEMI JOIN leaving_traces AS l ON l.tenant = t.tenant AND l.trace_id = t.trace_id
WHERE t.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns);
