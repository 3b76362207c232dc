-- What results are about whose jobs are still there: a trace or session, perhaps a span of it, by which revision, and
-- the number of the span that it ends with.
SELECT DISTINCT j.tenant, coalesce(j.session_id, j.trace_id) AS target, j.span_id, j.revision, j.seq
FROM incoming_results AS r
INNER JOIN job AS j ON j.job_id = r.job_id;
