-- Return the numbers of the items of a run that match all filters, in the requested order, and their count.
SELECT i.item_number, count(*) OVER () AS total
FROM run_item AS i
INNER JOIN outcome_of_run_item AS o ON o.run_id = i.run_id AND o.item_number = i.item_number
LEFT JOIN (
    SELECT
        item_number,
        avg(score) AS mean,
        bool_or(outcome = 'scored' AND NOT passed) AS fell_short
    FROM run_score
    WHERE run_id = $run_id
        AND ($evaluator::VARCHAR IS NULL OR "name" = $evaluator)
        AND score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id)
    GROUP BY item_number
) AS s ON s.item_number = i.item_number
WHERE i.run_id = $run_id
    AND o.run_id = $run_id
    AND ($outcome::VARCHAR IS NULL OR o.outcome = $outcome)
    AND ($evaluator::VARCHAR IS NULL OR s.fell_short)
    AND (
        $text::VARCHAR IS NULL
        OR contains(lower(i.inputs), lower($text))
        OR contains(lower(i.actual_outputs), lower($text))
        OR contains(lower(i.expected_outputs), lower($text))
        OR contains(lower(i.item_key), lower($text))
    )
ORDER BY
    CASE $sort
        WHEN 'score' THEN s.mean
        WHEN 'cost' THEN -i.cost_usd
        WHEN 'latency' THEN -i.latency_ms
    END NULLS LAST,
    i.item_number
LIMIT $items
OFFSET $skip;
