-- Calls of models that two scopes recorded in two traces each, by the minute in which the second one was received: among
-- the latest 4,000 calls of a stretch of spans, of one service and project, at overlapping times. They have one response
-- id; or, if one of them has none, equal usage and one model. A pair is new if one of its spans comes after `after`.
-- `one_more` and `other_more` count what each scope recorded in these traces other than calls without a parent.
WITH calls AS MATERIALIZED (
    SELECT
        tenant,
        project,
        service_name,
        trace_id,
        scope_name,
        nullif(response_id, '') AS response_id,
        model,
        input_tokens,
        output_tokens,
        start_time,
        end_time,
        received_at,
        seq
    FROM span
    WHERE seq > $first
        AND seq <= $until
        AND received_at >= make_timestamp($since_us)
        AND span_type = 'llm'
        AND scope_name <> ''
    ORDER BY seq DESC
    LIMIT 4000
),

alike AS (
    SELECT a AS one, b AS other, TRUE AS has_id
    FROM calls AS a
    JOIN calls AS b USING (tenant, project, service_name, response_id)
    WHERE a.scope_name < b.scope_name
        AND a.trace_id <> b.trace_id
        AND a.start_time <= b.end_time
        AND b.start_time <= a.end_time
        AND greatest(a.seq, b.seq) > $after
    UNION ALL
    SELECT a, b, FALSE
    FROM calls AS a
    JOIN calls AS b USING (tenant, project, service_name, input_tokens, output_tokens)
    WHERE a.scope_name < b.scope_name
        AND a.trace_id <> b.trace_id
        AND (a.response_id IS NULL OR b.response_id IS NULL)
        AND (starts_with(a.model, b.model) OR starts_with(b.model, a.model))
        AND a.input_tokens + a.output_tokens > 0
        AND a.start_time <= b.end_time
        AND b.start_time <= a.end_time
        AND greatest(a.seq, b.seq) > $after
),

pairs AS MATERIALIZED (
    SELECT
        one.tenant AS tenant,
        one.project AS project,
        one.scope_name AS one,
        other.scope_name AS other,
        one.trace_id AS one_trace,
        other.trace_id AS other_trace,
        one.seq AS one_seq,
        other.seq AS other_seq,
        greatest(one.received_at, other.received_at) AS received_at,
        has_id
    FROM alike
),

more AS (
    SELECT s.tenant, s.project, s.scope_name, count(*) AS spans
    FROM span AS s
    SEMI JOIN (
        SELECT tenant, one_trace AS trace_id, one AS scope_name FROM pairs
        UNION
        SELECT tenant, other_trace, other FROM pairs
    ) AS p ON s.tenant = p.tenant AND s.trace_id = p.trace_id AND s.scope_name = p.scope_name
    WHERE s.seq > $first
        AND s.seq <= $until
        AND s.received_at >= make_timestamp($since_us)
        AND (s.span_type <> 'llm' OR s.parent_span_id <> '')
    GROUP BY ALL
),

by_minute AS (
    SELECT
        tenant,
        project,
        one,
        other,
        least(count(DISTINCT one_seq), count(DISTINCT other_seq)) AS calls,
        bool_or(has_id) AS has_id,
        epoch_us(max(received_at)) AS received_us
    FROM pairs
    GROUP BY tenant, project, one, other, date_trunc('minute', received_at)
)

SELECT
    m.tenant,
    m.project,
    m.one,
    m.other,
    m.calls,
    m.has_id,
    m.received_us,
    coalesce(a.spans, 0) AS one_more,
    coalesce(b.spans, 0) AS other_more,
    (SELECT count(*) FROM calls) = 4000 AS is_sample
FROM by_minute AS m
LEFT JOIN more AS a ON a.tenant = m.tenant AND a.project = m.project AND a.scope_name = m.one
LEFT JOIN more AS b ON b.tenant = m.tenant AND b.project = m.project AND b.scope_name = m.other
ORDER BY m.calls DESC
LIMIT 1000;
