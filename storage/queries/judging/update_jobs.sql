-- Extend jobs that have not begun to all of their traces and sessions.
UPDATE job
SET seq = i.seq, project = i.project, release = i.release, trace_id = coalesce(i.session_trace, i.trace_id)
FROM incoming_jobs AS i, earlier_jobs AS e
WHERE e.is_ready AND e.job_id = job.job_id
    AND i.revision = job.revision AND i.tenant = job.tenant AND i.trace_id = coalesce(job.session_id, job.trace_id);
