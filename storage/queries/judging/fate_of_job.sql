-- Return the state of a job of a tenant, or of any if NULL, and its error kind. A superseded job is that, whatever its
-- result.
SELECT
    CASE WHEN $job_id IN (SELECT job_id FROM superseded) THEN 'superseded' ELSE one."state" END AS "state",
    one.error_kind
FROM (
    SELECT "state", error_kind FROM job WHERE job_id = $job_id AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    UNION ALL
    SELECT outcome, error_kind FROM evaluation WHERE job_id = $job_id AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
) AS one;
