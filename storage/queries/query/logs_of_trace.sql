-- The first $logs log records of one trace, by time and then as they came. They are found by the trace id alone, because
-- the times of a record follow another clock than those of its span, or are not set: with 1 million records stored, of 5
-- a trace, that takes 10 ms; with a roll-up that knows the times of each trace's records it was 8 ms.
SELECT *
FROM log_record
WHERE tenant = $tenant AND trace_id = $trace_id
ORDER BY logged_at, rowid
LIMIT $logs;
