-- The latest traces of a rule that monitors counted, of the two releases that came last in each service: what to judge again.
WITH judged AS (
    SELECT
        service,
        release,
        trace_id,
        min(min(number)) OVER (PARTITION BY service, release) AS first_number,
        max(number) AS last_number,
        min(started_at) AS first_at,
        max(started_at) AS last_at
    FROM evaluation
    WHERE counted
        AND release IS NOT NULL
        AND session_id IS NULL
        AND revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule_id)
    GROUP BY service, release, trace_id
),

ranked AS (
    SELECT
        *,
        dense_rank() OVER (PARTITION BY service ORDER BY first_number DESC) AS release_rank,
        row_number() OVER (PARTITION BY service, release ORDER BY last_number DESC) AS trace_rank
    FROM judged
)

SELECT
    trace_id,
    epoch_ns(min(first_at)) AS first_ns,
    epoch_ns(max(last_at)) AS last_ns
FROM ranked
WHERE release_rank <= 2
    AND trace_rank <= $of_release
GROUP BY trace_id
ORDER BY max(last_number) DESC
LIMIT $traces;
