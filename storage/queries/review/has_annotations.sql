-- Return whether a trace, or a span or session of it, has annotations. Most have none, and planning `annotations`
-- takes ten times as long.
SELECT
    EXISTS (SELECT 1 FROM annotation WHERE trace_id = $trace_id)
    OR EXISTS (SELECT 1 FROM log_record WHERE trace_id = $trace_id AND event_name = 'gen_ai.evaluation.result');
