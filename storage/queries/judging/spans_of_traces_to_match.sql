-- Return the columns that rules read of some spans between two numbers, with the numbers of their traces.
SELECT
    w.trace,
    s.tenant,
    s.project,
    s.start_time,
    s.service_name,
    s.parent_span_id IS NULL AS is_root/* asked */
FROM spans AS s
INNER JOIN wanted_spans AS w ON w.seq = s.seq
WHERE s.seq BETWEEN $first AND $last;
