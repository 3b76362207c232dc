-- Change a queue, if it has the version that was looked at and no other has its new name; the id, if so.
UPDATE review_queue
SET
    "name" = $name,
    question = $question,
    instructions = $instructions,
    answer = $answer,
    low = $low::DOUBLE,
    high = $high::DOUBLE,
    labels = $labels,
    reviewers = $reviewers,
    blind = $blind,
    feeds = $feeds,
    "version" = "version" + 1,
    updated_at = make_timestamp($now_us::BIGINT)
WHERE queue_id = $queue_id
    AND "version" = $version
    AND NOT EXISTS (
        SELECT 1 FROM review_queue AS q WHERE q.tenant = $tenant AND q.name = $name AND q.queue_id <> $queue_id
    )
RETURNING queue_id;
