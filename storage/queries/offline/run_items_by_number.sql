-- Return items of a run by their numbers. The bounds let the rest of the run be skipped.
SELECT i.* EXCLUDE (created_at), epoch_us(i.created_at) * 1000 AS created_at_ns
FROM run_item AS i
WHERE i.run_id = $run_id
    AND i.item_number BETWEEN $first AND $last
    AND i.item_number IN (SELECT unnest($numbers::BIGINT[]))
ORDER BY i.item_number;
