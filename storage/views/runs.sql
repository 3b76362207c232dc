-- Runs of experiments, one row each.
CREATE OR REPLACE VIEW runs AS
SELECT
    r.tenant,
    r.project,
    r.experiment,
    r.experiment_id,
    r.run_id,
    r.name,
    r.description,
    CASE
        WHEN r.state NOT IN ('RUNNING', 'CANCELLED') AND e.open > 0 THEN 'EVALUATING'
        ELSE r.state
    END AS status,
    coalesce(r.state_reason, e.waits) AS status_reason,
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
    s.passed / nullif(s.passed + s.not_passed, 0) AS pass_rate,
    s.tokens_in,
    s.tokens_out,
    s.cost_usd,
    coalesce(s.priced, 0) AS priced,
    coalesce(s.tokenized, 0) AS tokenized,
    s.latency_ms,
    r.pinned_at IS NOT NULL AS pinned,
    coalesce(e.failed, []) AS failed_evaluations
FROM run AS r
LEFT JOIN run_sums AS s ON s.run_id = r.run_id
LEFT JOIN run_evaluation_state AS e ON e.run_id = r.run_id;
