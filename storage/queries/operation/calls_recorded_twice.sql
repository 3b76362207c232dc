-- Count the model calls of a stretch of spans by scope and model, and those that two scopes recorded in two traces
-- each. They are counted by the minute in which the last one was received. Only the latest 4,000 calls are compared,
-- within one service and project, at overlapping times. Two calls are equal if they share a response id of at least 16
-- letters and digits. A shorter id also needs equal usage and one model (without its date suffix), since proxies and
-- local servers repeat short ids. If a scope has no id, equal usage and one model suffice. Rows without `other` count
-- all calls of a scope that have usage. Calls received after `after` count. `one_more` and `other_more` count the other
-- spans of each scope in these traces, without calls that have no parent. Overlapping calls are joined by sorting,
-- since the pairs of equal calls grow with their square. Each group of calls without a pause between them has as many
-- calls recorded twice as the scope with fewer calls has in it.
WITH calls AS MATERIALIZED (
    SELECT
        tenant,
        project,
        service_name,
        trace_id,
        scope_name AS scope,
        nullif(response_id, '') AS response_id,
        coalesce(regexp_replace(model, '[-@:]\d{4}-?\d\d-?\d\d$', ''), '') AS model,
        input_tokens,
        output_tokens,
        start_time,
        end_time,
        received_at,
        seq,
        seq <= $after AS is_old
    FROM span
    WHERE seq > $first
        AND seq <= $until
        AND received_at >= make_timestamp($since_us)
        AND span_type = 'llm'
        AND scope_name <> ''
    ORDER BY seq DESC
    LIMIT 4000
),

-- An id that a scope has in two traces is none: some servers repeat them.
keyed AS (
    SELECT
        *,
        TRUE AS has_id,
        concat_ws(
            ' ',
            response_id,
            CASE
                WHEN length(regexp_replace(response_id, '[^a-zA-Z0-9]', '', 'g')) < 16
                    THEN concat_ws(' ', input_tokens, output_tokens, model)
            END
        ) AS key
    FROM calls
    WHERE response_id IS NOT NULL
    WINDOW one_scope AS (PARTITION BY tenant, project, service_name, response_id, scope)
    QUALIFY min(trace_id) OVER one_scope = max(trace_id) OVER one_scope
    UNION ALL
    SELECT *, FALSE, concat_ws(' ', input_tokens, output_tokens, model)
    FROM calls
    WHERE input_tokens + output_tokens > 0
),

-- Within a trace a call counts once, so that the first of its scopes stands for all.
single AS (
    SELECT *
    FROM keyed
    QUALIFY scope = min(scope) OVER (PARTITION BY tenant, project, service_name, has_id, key, trace_id)
),

begun AS (
    SELECT
        *,
        coalesce(
            start_time > max(end_time) OVER (
                PARTITION BY tenant, project, service_name, has_id, key
                ORDER BY start_time, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            TRUE
        ) AS begins
    FROM single
),

grouped AS MATERIALIZED (
    SELECT
        *,
        count_if(begins) OVER (
            PARTITION BY tenant, project, service_name, has_id, key
            ORDER BY start_time, seq ROWS UNBOUNDED PRECEDING
        ) AS place
    FROM begun
),

-- Of a group sixteen scopes are compared, since pairs grow with their square.
by_scope AS MATERIALIZED (
    SELECT
        tenant,
        project,
        service_name,
        has_id,
        key,
        place,
        scope,
        min(model) AS model,
        count(*) AS calls,
        count_if(is_old) AS old_calls,
        count(response_id) AS with_id,
        max(received_at) AS received_at
    FROM grouped
    GROUP BY tenant, project, service_name, has_id, key, place, scope
    QUALIFY row_number() OVER (PARTITION BY tenant, project, service_name, has_id, key, place ORDER BY calls DESC) <= 16
),

pairs AS MATERIALIZED (
    SELECT
        tenant,
        project,
        service_name,
        has_id,
        key,
        place,
        a.scope AS one,
        b.scope AS other,
        least(a.model, b.model) AS model,
        least(a.calls, b.calls) - least(a.old_calls, b.old_calls) AS calls,
        greatest(a.received_at, b.received_at) AS received_at
    FROM by_scope AS a
    JOIN by_scope AS b USING (tenant, project, service_name, has_id, key, place)
    WHERE a.scope < b.scope
        AND (has_id OR a.with_id = 0 OR b.with_id = 0)
        AND least(a.calls, b.calls) > least(a.old_calls, b.old_calls)
),

more AS (
    SELECT s.tenant, s.project, s.scope_name AS scope, count(*) AS spans
    FROM span AS s
    SEMI JOIN (
        SELECT g.tenant, g.trace_id, g.scope
        FROM grouped AS g
        SEMI JOIN pairs AS p
            ON g.tenant = p.tenant
            AND g.project = p.project
            AND g.service_name = p.service_name
            AND g.has_id = p.has_id
            AND g.key = p.key
            AND g.place = p.place
            AND g.scope IN (p.one, p.other)
    ) AS c ON s.tenant = c.tenant AND s.trace_id = c.trace_id AND s.scope_name = c.scope
    WHERE s.seq > $first
        AND s.seq <= $until
        AND s.received_at >= make_timestamp($since_us)
        AND (s.span_type <> 'llm' OR s.parent_span_id <> '')
    GROUP BY ALL
),

by_minute AS (
    SELECT tenant, project, one, other, model, has_id, sum(calls)::BIGINT AS calls, max(received_at) AS received_at
    FROM pairs
    GROUP BY tenant, project, one, other, model, has_id, date_trunc('minute', received_at)
    ORDER BY calls DESC
    LIMIT 1000
),

totals AS (
    SELECT tenant, project, scope, NULL AS other, model, FALSE, count(*), max(received_at)
    FROM calls
    WHERE NOT is_old AND input_tokens + output_tokens > 0
    GROUP BY tenant, project, scope, model, date_trunc('minute', received_at)
    ORDER BY count(*) DESC
    LIMIT 1000
)

SELECT
    m.tenant,
    m.project,
    m.one,
    m.other,
    m.model,
    m.has_id,
    m.calls,
    epoch_us(m.received_at) AS received_us,
    coalesce(a.spans, 0) AS one_more,
    coalesce(b.spans, 0) AS other_more,
    (SELECT count(*) FROM calls) = 4000 AS is_sample
FROM (FROM by_minute UNION ALL FROM totals) AS m
LEFT JOIN more AS a ON a.tenant = m.tenant AND a.project = m.project AND a.scope = m.one
LEFT JOIN more AS b ON b.tenant = m.tenant AND b.project = m.project AND b.scope = m.other
ORDER BY m.calls DESC;
