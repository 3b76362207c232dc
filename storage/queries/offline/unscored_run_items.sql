-- Return items of a run after one of them that an evaluation has not scored, in order of arrival.
SELECT
    i.item_number,
    i.inputs,
    i.expected_outputs,
    i.actual_outputs,
    i.metadata,
    i.trace_id,
    i.span_id,
    i.error IS NOT NULL OR i.error_kind IS NOT NULL AS has_failed
FROM run_item AS i
ANTI JOIN (
    SELECT item_number FROM run_score WHERE run_id = $run_id AND evaluation_id = $evaluation_id
) AS said USING (item_number)
WHERE i.run_id = $run_id
    AND i.item_number > $after
ORDER BY i.item_number
LIMIT $items;
