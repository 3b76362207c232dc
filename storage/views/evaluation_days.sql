-- Results added up by day, of traces that are stored and of those that have left alike.
CREATE OR REPLACE VIEW evaluation_days AS
WITH each_one AS (
    SELECT e.*, e.created_at::DATE AS day, s.job_id IS NULL AS counts
    FROM evaluation AS e
    LEFT JOIN (SELECT DISTINCT job_id FROM superseded) AS s ON s.job_id = e.job_id
),
sums AS (
    SELECT
        day,
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
    FROM each_one
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT *
    FROM evaluation_day
)
SELECT
    d.day,
    d.tenant,
    d.project,
    any_value(r.rule) AS rule,
    left(any_value(r.digest), 12) AS rule_revision,
    d.name,
    d.fingerprint,
    d.release,
    sum(d.scored)::BIGINT AS scored,
    sum(d.failed)::BIGINT AS failed,
    sum(d.skipped)::BIGINT AS skipped,
    sum(d.passed)::BIGINT AS passed,
    sum(d.not_passed)::BIGINT AS not_passed,
    sum(d.score_sum) AS score_sum,
    sum(d.score_square_sum) AS score_square_sum,
    sum(d.judge_calls)::BIGINT AS judge_calls,
    sum(d.input_tokens)::BIGINT AS input_tokens,
    sum(d.output_tokens)::BIGINT AS output_tokens,
    sum(d.cost_usd) AS cost_usd
FROM sums AS d
LEFT JOIN rule_revision AS r ON r.revision = d.revision
GROUP BY d.revision, d.day, d.tenant, d.project, d.name, d.fingerprint, d.release;
