-- Entries of review queues, with reason, sampling probability and number of votes. The weight of their labels is the
-- inverse probability.
CREATE OR REPLACE VIEW review_entries AS
WITH votes AS NOT MATERIALIZED (
    SELECT
        queue_id,
        entry_id,
        count(*) AS votes,
        count(*) FILTER (WHERE decides) AS decided,
        list(label ORDER BY author) AS labels
    FROM review_vote
    GROUP BY queue_id, entry_id
)
SELECT
    e.tenant,
    e.queue_id,
    q.name AS queue,
    q.question,
    e.entry_id,
    e.target,
    e.project,
    e.trace_id,
    e.span_id,
    e.run_id,
    e.item_number,
    e.reason,
    e.rule_id,
    e.probability,
    q.reviewers,
    coalesce(v.votes, 0) AS votes,
    coalesce(v.labels, []) AS labels,
    coalesce(v.decided, 0) >= q.reviewers AS done,
    e.added_by,
    e.added_at
FROM review_entry AS e
INNER JOIN review_queue AS q ON q.queue_id = e.queue_id
LEFT JOIN votes AS v ON v.queue_id = e.queue_id AND v.entry_id = e.entry_id;
