-- Return queues with their progress by name, of a tenant, plus shared ones (tenant ''), or one of them. NULL returns
-- those of all tenants. Progress that is not counted is 0.
WITH found AS (
    SELECT *
    FROM review_queue
    WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, '')) AND ($queue_id::VARCHAR IS NULL OR queue_id = $queue_id)
),
votes AS (
    SELECT entry_id, count(*) AS votes, count(*) FILTER (WHERE decides) AS decided
    FROM review_vote
    WHERE $counted::BOOLEAN AND queue_id IN (SELECT queue_id FROM found)
    GROUP BY entry_id
),
leases AS (
    SELECT queue_id, count(*) AS leased
    FROM review_turn
    WHERE $counted::BOOLEAN AND "state" = 'leased' AND leased_until > make_timestamp($now_us::BIGINT)
    GROUP BY queue_id
)
SELECT
    q.tenant,
    q.queue_id,
    q.name,
    q.question,
    q.instructions,
    q.answer,
    q.low,
    q.high,
    q.labels,
    q.reviewers,
    q.blind,
    q.feeds,
    q.version,
    q.created_by,
    epoch_us(q.created_at) AS created_us,
    epoch_us(q.updated_at) AS updated_us,
    count(e.entry_id) AS entries,
    count(e.entry_id) FILTER (WHERE v.decided >= q.reviewers) AS done,
    coalesce(sum(v.votes), 0)::BIGINT AS votes,
    coalesce(any_value(l.leased), 0) AS leased
FROM found AS q
LEFT JOIN review_entry AS e ON $counted::BOOLEAN AND e.queue_id = q.queue_id
LEFT JOIN votes AS v ON v.entry_id = e.entry_id
LEFT JOIN leases AS l ON l.queue_id = q.queue_id
GROUP BY ALL
ORDER BY q.name, q.tenant, q.queue_id;
