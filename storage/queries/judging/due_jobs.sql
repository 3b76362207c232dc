-- Jobs of some revisions that are due, those first that have been so for the longest: what just failed is behind the rest.
-- Of those that became due together, jobs of one target come together, so that its test case is made once.
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
