-- Return the first $logs log records of one trace, by time and then in order of arrival. They are found by the trace id
-- alone, since their times follow another clock than the spans', or are unset. With 1 million records, 5 a trace, that
-- takes 10 ms. With a roll-up of each trace's record times it took 8 ms.
SELECT *
FROM log_record
WHERE tenant = $tenant AND trace_id = $trace_id
ORDER BY logged_at, rowid
LIMIT $logs;
