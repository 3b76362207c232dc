-- Run items with their outcome, one row for each item and trial.
CREATE OR REPLACE VIEW run_items AS
SELECT
    i.tenant,
    r.project,
    r.experiment,
    i.run_id,
    i.item_number,
    i.item_key,
    i.is_keyed,
    i.dataset_item_id,
    r.dataset,
    r.dataset_version,
    i.trial,
    o.outcome,
    i.inputs,
    i.expected_outputs,
    i.actual_outputs,
    i.metadata,
    i.error,
    i.error_kind,
    i.stop_reason,
    i.cached,
    i.retries,
    i.tokens_in,
    i.tokens_out,
    i.tokens_cached,
    i.tokens_reasoning,
    i.cost_usd,
    i.latency_ms,
    i.trace_id,
    i.span_id,
    i.created_at
FROM run_item AS i
INNER JOIN run AS r ON r.run_id = i.run_id
INNER JOIN outcome_of_run_item AS o ON o.run_id = i.run_id AND o.item_number = i.item_number;
