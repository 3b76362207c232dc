-- Return the counted scores of some items of a run between two numbers, by name.
SELECT s.* EXCLUDE (created_at), epoch_us(s.created_at) * 1000 AS created_at_ns
FROM run_score AS s
WHERE s.run_id = $run_id
    AND s.item_number BETWEEN $first AND $last
    AND s.item_number IN (SELECT unnest($numbers::BIGINT[]))
    AND s.score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id)
ORDER BY s.item_number, s.name, s.score_number;
