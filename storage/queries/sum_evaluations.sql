-- Add up the evaluations of spans that leave, by day, rule revision, fingerprint and release; those that another
-- evaluation of the same target replaced cost money and count no more.
INSERT INTO evaluation_day BY NAME
SELECT
    created_at::DATE AS day,
    tenant,
    project,
    revision,
    "name",
    fingerprint,
    release,
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
    coalesce(sum(cost_usd), 0) AS cost_usd
FROM (
    SELECT e.*, e.job_id NOT IN (SELECT job_id FROM superseded) AS counts
    FROM evaluation AS e
    WHERE e.seq BETWEEN $first_seq AND $last_seq AND e.seq IN (SELECT seq FROM leaving_spans)
)
GROUP BY ALL;
