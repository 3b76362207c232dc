-- Return the items of a run with this outcome, in order of arrival.
SELECT i.* EXCLUDE (created_at), epoch_us(i.created_at) * 1000 AS created_at_ns
FROM run_item AS i
WHERE i.run_id = $run_id
    AND i.item_number IN (
        SELECT o.item_number
        FROM outcome_of_run_item AS o
        WHERE o.run_id = $run_id
            AND o.outcome = $outcome
        ORDER BY o.item_number
        LIMIT $items
        OFFSET $skip
    )
ORDER BY i.item_number;
