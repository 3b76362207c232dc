-- Return due jobs of some revisions, longest due first, so that a job that just failed comes last. Jobs that became due
-- together are ordered by target, so that its test case is built once.
SELECT
    job_id,
    revision,
    seq,
    tenant,
    project,
    trace_id,
    span_id,
    session_id,
    attempts
FROM job
WHERE "state" = 'ready'
    AND (not_before IS NULL OR not_before <= make_timestamp($now_us))
    AND revision IN (SELECT unnest($revisions::INTEGER[]))
ORDER BY coalesce(not_before, created_at), seq, trace_id, span_id, job_id
LIMIT $jobs;
