-- Return the targets of results whose jobs still exist: trace or session, span if any, revision, and the number of the
-- last span.
SELECT DISTINCT j.tenant, coalesce(j.session_id, j.trace_id) AS target, j.span_id, j.revision, j.seq
FROM incoming_results AS r
INNER JOIN job AS j ON j.job_id = r.job_id;
