-- Results of stored traces, summed by the day of the evaluation and the day of the target. Results that a later one
-- for the same target replaced add only their cost. `sum_evaluations` uses the same query for deleted traces.
CREATE OR REPLACE VIEW evaluation_by_day AS
SELECT
    created_at::DATE AS day,
    coalesce(started_at, created_at)::DATE AS started_day,
    tenant,
    project,
    revision,
    "name",
    fingerprint,
    release,
    service,
    count(*) FILTER (WHERE counts AND outcome = 'scored') AS scored,
    count(*) FILTER (WHERE counts AND outcome = 'failed') AS failed,
    count(*) FILTER (WHERE counts AND outcome = 'skipped') AS skipped,
    count(*) FILTER (WHERE counts AND passed) AS passed,
    count(*) FILTER (WHERE counts AND NOT passed) AS not_passed,
    coalesce(sum(score) FILTER (WHERE counts AND outcome = 'scored'), 0) AS score_sum,
    coalesce(sum(score * score) FILTER (WHERE counts AND outcome = 'scored'), 0) AS score_square_sum,
    coalesce(sum(judge_calls), 0) AS judge_calls,
    coalesce(sum(input_tokens), 0) AS input_tokens,
    coalesce(sum(output_tokens), 0) AS output_tokens,
    coalesce(sum(cost_usd), 0) AS cost_usd,
    coalesce(sum(judge_calls) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced_calls,
    count(*) FILTER (WHERE counted) AS counted,
    max(created_at) AS last_at
FROM (SELECT *, job_id NOT IN (SELECT job_id FROM superseded) AS counts FROM evaluation)
GROUP BY ALL;
