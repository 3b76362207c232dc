-- Return the jobs of one target by one revision, finished or not, and whether their results still count.
SELECT job_id, round, is_done, job_id IN (SELECT job_id FROM superseded) AS is_superseded
FROM (
    SELECT job_id, round, false AS is_done, revision, tenant, trace_id, span_id, session_id FROM job
    UNION ALL
    SELECT job_id, round, true, revision, tenant, trace_id, span_id, session_id FROM evaluation
)
WHERE revision = $revision
    AND tenant = $tenant
    AND trace_id = $trace_id
    AND span_id IS NOT DISTINCT FROM $span_id
    AND session_id IS NULL;
