-- Return the jobs over the lake of a rule, latest first, with their results by outcome. The rule's revisions lie between
-- two numbers, by which files of other rules' results are left out.
SELECT
    job,
    epoch_ns(min(start_time)) AS from_ns,
    epoch_ns(max(start_time)) AS to_ns,
    count(*) AS results,
    count_if(passed) AS passed,
    count_if(NOT passed) AS not_passed,
    count_if(outcome = 'failed') AS failed,
    count_if(outcome = 'skipped') AS skipped
FROM backfill_results
WHERE rule_id = $rule_id AND revision BETWEEN $first_revision AND $last_revision
GROUP BY job
ORDER BY max(created_at) DESC, job
LIMIT $jobs;
