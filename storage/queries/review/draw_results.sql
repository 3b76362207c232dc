-- Return results of rules about traces and spans that the feeds of a queue select and that are not in it. Each target
-- comes once, with its sampling probability: the largest share of the matching feeds. NULL means that only an
-- annotation selected it.
WITH feeds AS (
    SELECT
        unnest($rule_ids::VARCHAR[]) AS rule_id,
        unnest($policies::VARCHAR[]) AS policy,
        unnest($shares::DOUBLE[]) AS share,
        unnest($margins::DOUBLE[]) AS margin,
        unnest($against::VARCHAR[]) AS against
),
results AS (
    SELECT
        r.rule_id,
        e.fingerprint,
        e.project,
        e.trace_id,
        e.span_id,
        e.score,
        e.threshold,
        e.passed,
        e.created_at,
        e.job_id
    FROM evaluation AS e
    INNER JOIN rule_revision AS r ON r.revision = e.revision
    WHERE e.tenant = $tenant
        AND e.created_at >= make_timestamp($from_us::BIGINT)
        AND r.rule_id IN (SELECT rule_id FROM feeds UNION ALL SELECT against FROM feeds WHERE against IS NOT NULL)
        AND e.outcome = 'scored'
        AND e.session_id IS NULL
        AND e.passed IS NOT NULL
        AND e.job_id NOT IN (SELECT job_id FROM superseded)
),
latest AS (
    SELECT *
    FROM results
    QUALIFY row_number() OVER (PARTITION BY rule_id, trace_id, span_id ORDER BY created_at DESC, job_id DESC) = 1
),
people AS (
    SELECT a.trace_id, a.span_id, a.author, arg_max(lower(a.label), a.number) AS label
    FROM annotation AS a
    WHERE a.tenant = $tenant
        AND a.name = $question
        AND a.source IN ('person', 'adjudicator')
        AND a.target IN ('trace', 'span')
        AND list_contains($policies::VARCHAR[], 'disagreement')
    GROUP BY a.trace_id, a.span_id, a.author
    HAVING NOT arg_max(a.withdrawn, a.number)
),
seen AS (
    SELECT
        trace_id,
        span_id,
        bool_or(label IN ('correct', 'pass', 'yes')) AS passed,
        bool_or(label IN ('incorrect', 'fail', 'no')) AS failed
    FROM people
    GROUP BY trace_id, span_id
),
fitting AS (
    SELECT
        l.*,
        f.policy,
        f.share,
        CASE f.policy
            WHEN 'failing' THEN NOT l.passed
            WHEN 'uncertainty' THEN abs(l.score - l.threshold) <= f.margin
            WHEN 'random' THEN true
            ELSE EXISTS (
                SELECT 1
                FROM results AS o
                WHERE o.trace_id = l.trace_id
                    AND o.span_id IS NOT DISTINCT FROM l.span_id
                    AND (o.rule_id = l.rule_id OR o.rule_id = f.against)
                    AND o.passed <> l.passed
            )
        END AS is_drawn_blindly,
        f.policy = 'disagreement'
        AND EXISTS (
            SELECT 1
            FROM seen AS s
            WHERE s.trace_id = l.trace_id
                AND s.span_id IS NOT DISTINCT FROM l.span_id
                AND (s.passed AND s.failed OR s.passed AND NOT l.passed OR s.failed AND l.passed)
        ) AS is_drawn_by_votes
    FROM latest AS l
    INNER JOIN feeds AS f ON f.rule_id = l.rule_id
),
targets AS (
    SELECT
        trace_id,
        span_id,
        any_value(project) AS project,
        max(share) FILTER (WHERE is_drawn_blindly) AS chance,
        arg_max(policy, share) FILTER (WHERE is_drawn_blindly) AS policy,
        arg_max(rule_id, share) FILTER (WHERE is_drawn_blindly) AS rule_id,
        max(share) FILTER (WHERE is_drawn_by_votes) AS chance_by_votes,
        arg_max(rule_id, share) FILTER (WHERE is_drawn_by_votes) AS rule_id_by_votes,
        min(created_at) AS first_at,
        bool_or(NOT passed) AS has_failed,
        md5_number_lower('draw/' || $queue_id || '/' || trace_id || '/' || coalesce(span_id, '')) AS lot
    FROM fitting
    WHERE is_drawn_blindly OR is_drawn_by_votes
    GROUP BY trace_id, span_id
),
drawn AS (
    SELECT *, coalesce(lot < chance * 18446744073709551616.0, false) AS is_known
    FROM targets
    WHERE lot < greatest(coalesce(chance, 0), coalesce(chance_by_votes, 0)) * 18446744073709551616.0
)
SELECT
    row_number() OVER (ORDER BY d.has_failed DESC, d.first_at, d.trace_id, d.span_id) AS place,
    CASE WHEN d.span_id IS NULL THEN 'trace' ELSE 'span' END AS target,
    d.project,
    d.trace_id,
    d.span_id,
    NULL::VARCHAR AS run_id,
    NULL::BIGINT AS item_number,
    CASE WHEN d.is_known THEN d.policy ELSE 'disagreement' END AS reason,
    CASE WHEN d.is_known THEN d.rule_id ELSE d.rule_id_by_votes END AS rule_id,
    CASE WHEN d.is_known THEN d.chance END AS probability
FROM drawn AS d
WHERE NOT EXISTS (
    SELECT 1
    FROM review_entry AS e
    WHERE e.queue_id = $queue_id AND e.trace_id = d.trace_id AND e.span_id IS NOT DISTINCT FROM d.span_id
)
ORDER BY place
LIMIT $rows;
