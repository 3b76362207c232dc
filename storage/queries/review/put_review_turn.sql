-- Save a reviewer's turn on an entry, unless the entry is gone.
INSERT INTO review_turn BY NAME
SELECT
    tenant,
    queue_id,
    entry_id,
    trace_id,
    $author AS author,
    $state AS "state",
    make_timestamp($until_us::BIGINT) AS leased_until,
    (SELECT coalesce(max(number), 0) + 1 FROM review_turn) AS number
FROM review_entry
WHERE queue_id = $queue_id AND entry_id = $entry_id;
