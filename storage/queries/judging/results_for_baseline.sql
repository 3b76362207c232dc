-- Return a revision's scores of some traces that monitors do not count, from backfills or manual evaluations.
SELECT e.job_id
FROM evaluation AS e
WHERE e.revision = $revision
    AND e.trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
    AND e.outcome = 'scored'
    AND e.fingerprint IS NOT NULL
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
    AND NOT EXISTS (
        SELECT 1
        FROM evaluation AS o
        WHERE o.counted
            AND o.revision = $revision
            AND o.trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
            AND o.tenant = e.tenant
            AND o.trace_id = e.trace_id
            AND o.span_id IS NOT DISTINCT FROM e.span_id
            AND o.session_id IS NOT DISTINCT FROM e.session_id
            AND o.fingerprint = e.fingerprint
    )
ORDER BY e.number;
