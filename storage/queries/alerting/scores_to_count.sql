-- Return scores that rules let monitors count and that are not counted yet, with their current values. They are
-- annotations after a number, and scores from events, of traces and spans that the rule matched. A score of a trace
-- also counts for a rule about spans of it.
WITH said AS MATERIALIZED (
    SELECT
        tenant,
        project,
        trace_id,
        span_id,
        "name",
        source,
        author,
        number,
        withdrawn,
        CASE lower(label)
            WHEN 'correct' THEN true
            WHEN 'pass' THEN true
            WHEN 'yes' THEN true
            WHEN 'up' THEN true
            WHEN 'incorrect' THEN false
            WHEN 'fail' THEN false
            WHEN 'no' THEN false
            WHEN 'down' THEN false
        END AS passed,
        score,
        note
    FROM annotation
    WHERE number > $after
        AND target IN ('trace', 'span')
        AND source <> 'adjudicator'
        AND "name" IN (SELECT "name" FROM wanted_scores)
    QUALIFY number = max(number) OVER (PARTITION BY tenant, trace_id, span_id, "name", source, author)
    UNION ALL BY NAME
    SELECT * FROM said_events
),
wanted AS MATERIALIZED (
    SELECT s.*, w.rule_id, w.revision, w.of_traces, w.compare_by
    FROM said AS s
    INNER JOIN wanted_scores AS w ON w.name = s.name AND (w.tenant = '' OR w.tenant = s.tenant)
    WHERE NOT s.withdrawn
        AND (s.passed IS NOT NULL OR s.score BETWEEN 0 AND 1)
        AND NOT EXISTS (
            SELECT 1
            FROM counted_score AS c
            INNER JOIN rule_revision AS v ON v.revision = c.revision
            WHERE v.rule_id = w.rule_id
                AND c.tenant = s.tenant
                AND c.trace_id = s.trace_id
                AND c.span_id IS NOT DISTINCT FROM s.span_id
                AND c.name = s.name
                AND c.source = s.source
                AND c.author = s.author
        )
),
bounds AS MATERIALIZED (
    SELECT min(p.start_time) AS first_start, max(p.last_start_time) AS last_start
    FROM trace_part AS p
    SEMI JOIN wanted AS w ON w.tenant = p.tenant AND w.trace_id = p.trace_id
),
of_traces AS MATERIALIZED (
    SELECT s.tenant, s.trace_id, s.span_id, s.seq, s.project, s.service_name, s.start_time, s.attributes, s.resource_attributes
    FROM spans AS s
    SEMI JOIN wanted AS w ON w.tenant = s.tenant AND w.trace_id = s.trace_id
    WHERE s.start_time BETWEEN (SELECT first_start FROM bounds) AND (SELECT last_start FROM bounds)
),
matched AS MATERIALIZED (
    SELECT d.seq, v.rule_id
    FROM decision AS d
    INNER JOIN rule_revision AS v ON v.revision = d.revision
    WHERE d.outcome IN (1, 2) AND d.seq IN (SELECT seq FROM of_traces) AND v.rule_id IN (SELECT rule_id FROM wanted)
),
marked AS MATERIALIZED (
    SELECT s.*, m.seq IS NOT NULL AS is_matched, w.number, w.revision, w.span_id AS about_span, w.of_traces, w.compare_by
    FROM wanted AS w
    INNER JOIN of_traces AS s ON s.tenant = w.tenant AND s.trace_id = w.trace_id
    LEFT JOIN (SELECT DISTINCT seq, rule_id FROM matched) AS m ON m.seq = s.seq AND m.rule_id = w.rule_id
),
counting AS (
    SELECT
        number,
        revision,
        min(project) AS project,
        max(coalesce(attributes[compare_by], resource_attributes[compare_by])) AS release,
        arg_min(service_name, start_time) AS service,
        min(start_time)::TIMESTAMP AS started_at
    FROM marked
    GROUP BY number, revision
    HAVING bool_or(is_matched AND (of_traces OR about_span IS NULL OR span_id = about_span))
)
SELECT
    w.number AS annotation,
    w.tenant,
    coalesce(w.project, c.project) AS project,
    w.revision,
    w.trace_id,
    w.span_id,
    w.name,
    w.source,
    w.author,
    c.release,
    c.service,
    c.started_at,
    w.passed,
    w.score,
    w.note
FROM wanted AS w
INNER JOIN counting AS c ON c.number = w.number AND c.revision = w.revision
ORDER BY w.number, w.revision;
