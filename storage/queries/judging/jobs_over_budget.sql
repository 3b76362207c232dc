-- Return evaluations between two instants that were skipped because of a budget and not retried since, oldest first.
SELECT e.job_id
FROM evaluation AS e
WHERE e.outcome = 'skipped'
    AND e.error_kind = 'over_budget'
    AND e.created_at >= make_timestamp($after_us)
    AND e.created_at < make_timestamp($before_us)
    AND e.job_id NOT IN (SELECT job_id FROM superseded)
ORDER BY e.job_id
LIMIT $jobs;
