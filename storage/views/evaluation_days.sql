-- Results summed by day, of stored and deleted traces.
CREATE OR REPLACE VIEW evaluation_days AS
WITH sums AS (
    SELECT * EXCLUDE (last_at)
    FROM evaluation_by_day
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
    sum(d.cost_usd) AS cost_usd,
    sum(d.unpriced_calls)::BIGINT AS unpriced_calls
FROM sums AS d
LEFT JOIN rule_revision AS r ON r.revision = d.revision
GROUP BY d.revision, d.day, d.tenant, d.project, d.name, d.fingerprint, d.release;
