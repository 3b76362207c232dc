-- Runs of experiments, one row each.
CREATE OR REPLACE VIEW runs AS
SELECT
    r.tenant,
    r.project,
    r.experiment,
    r.experiment_id,
    r.run_id,
    r.name,
    CASE
        WHEN r.state != 'RUNNING' AND r.run_id IN (
            SELECT e.run_id FROM run_evaluation AS e WHERE e.state IN ('waiting', 'running')
        ) THEN 'EVALUATING'
        ELSE r.state
    END AS status,
    r.state_reason AS status_reason,
    r.verdict,
    r.dataset,
    r.dataset_version,
    r.trials,
    r.git_sha,
    r.git_branch,
    r.triggered_by,
    r.metadata,
    r.created_by,
    r.started_at,
    r.completed_at,
    coalesce(s.items, 0) AS items,
    coalesce(s.cases, 0) AS cases,
    coalesce(s.passed, 0) AS passed,
    coalesce(s.not_passed, 0) AS not_passed,
    coalesce(s.errors, 0) AS errors,
    coalesce(s.not_evaluated, 0) AS not_evaluated,
    coalesce(s.unjudged, 0) AS unjudged,
    s.passed / s.items AS pass_rate,
    s.tokens_in,
    s.tokens_out,
    s.cost_usd,
    coalesce(s.priced, 0) AS priced,
    coalesce(s.tokenized, 0) AS tokenized,
    s.latency_ms,
    r.pinned_at IS NOT NULL AS pinned
FROM run AS r
LEFT JOIN (
    SELECT
        i.run_id,
        count(*) AS items,
        count(DISTINCT i.item_key) AS cases,
        count(*) FILTER (o.outcome = 'passed') AS passed,
        count(*) FILTER (o.outcome = 'not_passed') AS not_passed,
        count(*) FILTER (o.outcome = 'error') AS errors,
        count(*) FILTER (o.outcome = 'not_evaluated') AS not_evaluated,
        count(*) FILTER (o.outcome = 'unjudged') AS unjudged,
        sum(i.tokens_in)::BIGINT AS tokens_in,
        sum(i.tokens_out)::BIGINT AS tokens_out,
        sum(i.cost_usd) AS cost_usd,
        count(i.cost_usd) AS priced,
        count(*) FILTER (i.tokens_in IS NOT NULL OR i.tokens_out IS NOT NULL) AS tokenized,
        avg(i.latency_ms) AS latency_ms
    FROM run_item AS i
    INNER JOIN outcome_of_run_item AS o USING (run_id, item_number)
    GROUP BY i.run_id
) AS s ON s.run_id = r.run_id;
