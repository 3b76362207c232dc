-- The traces whose log records came with the commits after one and up to another. Scores say nothing that is read.
SELECT DISTINCT tenant, trace_id
FROM log_record
WHERE batch > $after AND batch <= $until
    AND event_name <> 'gen_ai.evaluation.result';
