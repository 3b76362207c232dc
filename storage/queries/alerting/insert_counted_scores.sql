-- Store scores that monitors count from here on, with the next numbers of results, but for those that were deleted
-- meanwhile: what came as an event is gone with its record.
INSERT INTO counted_score BY NAME
SELECT
    i.*,
    (SELECT last_number FROM result_state) + row_number() OVER (ORDER BY i.annotation, i.revision) AS number,
    make_timestamp($now_us::BIGINT) AS created_at
FROM incoming_scores AS i
WHERE i.annotation IN (SELECT number FROM annotation)
    OR (
        i.annotation < 0
        AND (i.tenant, i.trace_id) IN (
            SELECT (tenant, trace_id)
            FROM log_record
            WHERE batch > $after_batch::BIGINT AND event_name = 'gen_ai.evaluation.result'
        )
    );
