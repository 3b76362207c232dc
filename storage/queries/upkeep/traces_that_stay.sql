-- Return those of the leaving traces that must not move now: they are pinned, have not settled or wait for a judgement,
-- or the lake does not have all of their rows.
SELECT DISTINCT l.tenant, l.trace_id
FROM leaving_traces AS l
SEMI JOIN (
    SELECT tenant, trace_id FROM trace_pin
    UNION ALL
    SELECT tenant, trace_id FROM trace_open
    UNION ALL
    SELECT tenant, trace_id FROM job
    UNION ALL
    SELECT tenant, trace_id FROM span WHERE write_number > $span
    UNION ALL
    SELECT tenant, trace_id FROM log_record WHERE write_number > $log_record
    UNION ALL
    SELECT tenant, trace_id FROM trace_part WHERE write_number > $trace_part
    UNION ALL
    SELECT tenant, trace_id FROM trace_reading WHERE write_number > $trace_reading
    UNION ALL
    SELECT tenant, trace_id FROM tool_call WHERE write_number > $tool_call
    UNION ALL
    SELECT tenant, trace_id FROM evaluation WHERE number > $evaluation
    UNION ALL
    SELECT tenant, trace_id FROM span WHERE seq IN (SELECT seq FROM decision WHERE write_number > $decision)
    UNION ALL
    SELECT tenant, trace_id
    FROM evaluation
    WHERE job_id IN (SELECT job_id FROM superseded WHERE write_number > $superseded)
) AS s ON s.tenant = l.tenant AND s.trace_id = l.trace_id;
