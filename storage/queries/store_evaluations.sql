-- Store what came of jobs, unless they are gone: then it is stored. Monitors count the first score of a target.
INSERT INTO evaluation BY NAME
SELECT
    r.*,
    j.revision,
    j.seq,
    j.tenant,
    j.project,
    j.trace_id,
    j.span_id,
    j.release,
    j.round,
    j.attempts,
    make_timestamp($now_us) AS created_at,
    j.created_at AS enqueued_at,
    (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY j.job_id) AS number,
    j.occasion,
    j.occasion = 'live'
        AND r.outcome = 'scored'
        AND r.fingerprint IS NOT NULL
        AND s.job_id IS NULL AS counted
FROM incoming_results AS r
INNER JOIN job AS j ON j.job_id = r.job_id
LEFT JOIN (
    SELECT DISTINCT job_id
    FROM superseded
    SEMI JOIN incoming_results USING (job_id)
) AS s ON s.job_id = r.job_id;
