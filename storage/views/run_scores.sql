-- Scores of run items, one row each; earlier scores of an evaluator that ran again are superseded.
CREATE OR REPLACE VIEW run_scores AS
SELECT
    s.tenant,
    r.project,
    r.experiment,
    s.run_id,
    s.item_number,
    i.item_key,
    i.trial,
    s.name,
    s.outcome,
    s.score,
    s.label,
    s.passed,
    s.threshold,
    s.direction,
    s.reason,
    s.error_kind,
    s.fingerprint,
    s.evaluator_version,
    s.metadata,
    CASE WHEN s.evaluation_id IS NULL THEN 'client' ELSE 'server' END AS origin,
    s.evaluation_id,
    s.judge_model,
    s.judge_calls,
    s.input_tokens,
    s.output_tokens,
    s.cost_usd,
    s.latency_ms,
    s.created_at,
    s.score_number,
    s.score_number IN (SELECT score_number FROM superseded_score) AS superseded
FROM run_score AS s
INNER JOIN run AS r ON r.run_id = s.run_id
INNER JOIN run_item AS i ON i.run_id = s.run_id AND i.item_number = s.item_number;
