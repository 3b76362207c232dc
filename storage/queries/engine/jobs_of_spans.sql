-- Return the jobs for spans that rules matched, in the order of the spans.
SELECT
    d.revision,
    d.seq,
    w.tenant,
    w.project,
    w.trace_id,
    w.span_id,
    NULL::VARCHAR AS session_trace,
    /* release */ AS release,
    w.service_name AS service,
    w.start_time::TIMESTAMP AS started_at
FROM decided AS d
INNER JOIN looked_at AS w ON w.seq = d.seq
WHERE d.outcome = 2
ORDER BY d.seq, d.revision;
