-- Add a queue, unless the tenant has one of that name or as many as it may have; the id says that it was added.
INSERT INTO review_queue BY NAME
SELECT
    $tenant AS tenant,
    $queue_id AS queue_id,
    $name AS "name",
    $question AS question,
    $instructions AS instructions,
    $answer AS answer,
    $low::DOUBLE AS low,
    $high::DOUBLE AS high,
    $labels AS labels,
    $reviewers AS reviewers,
    $blind AS blind,
    $feeds AS feeds,
    1 AS "version",
    $created_by::VARCHAR AS created_by,
    make_timestamp($now_us::BIGINT) AS created_at,
    make_timestamp($now_us::BIGINT) AS updated_at
WHERE NOT EXISTS (SELECT 1 FROM review_queue AS q WHERE q.tenant = $tenant AND q.name = $name)
    AND (SELECT count(*) FROM review_queue AS q WHERE q.tenant = $tenant) < $most
RETURNING queue_id;
