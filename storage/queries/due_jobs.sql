-- Jobs of some revisions that are due, those first that have been so for the longest: what just failed is behind the rest.
SELECT *
FROM job
WHERE "state" = 'ready'
    AND (not_before IS NULL OR not_before <= make_timestamp($now_us))
    AND revision IN (SELECT unnest($revisions::INTEGER[]))
ORDER BY coalesce(not_before, created_at), job_id
LIMIT $jobs;
