-- Give each call without a result the result that another trace received within an hour, and remove it if that trace is
-- gone. A call gets a result only if no equal call (same key, tenant and project) may be waiting at the same time. The
-- two traces must not name different sessions, users or services. Sessions distinguish equal calls, unless an equal
-- call or result near them names no session. A result with the same text as one of the hour before is a repetition and
-- belongs to no further call. The outcome depends on the rows alone, not on their order of arrival. It depends on
-- results of two hours before a call and on rows within an hour of it. So rows of three hours around a change are read.
-- Times are compared as numbers, since adding an interval to a time in the year 2262 overflows TIMESTAMP_NS. The
-- windows cost more than linear time, so a group of more than $most equal calls gets no results.
WITH changed AS (
    SELECT DISTINCT tenant, call_key
    FROM changed_calls
),
keyed AS MATERIALIZED (
    SELECT
        rowid AS place,
        tenant,
        call_key,
        trace_id,
        ordinal,
        is_sent,
        start_time,
        epoch_ns(start_time) // 1000 AS at_us,
        CASE WHEN is_sent THEN hash(result, is_error, error) END AS words,
        count(*) OVER (PARTITION BY tenant, call_key) > $most AS are_too_many
    FROM tool_call
    SEMI JOIN changed USING (tenant, call_key)
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND call_key IS NOT NULL
),
party AS (
    SELECT tenant, trace_id, project, service_name, session_id, user_id
    FROM trace_reading
    WHERE rowid IN (
        SELECT r.rowid
        FROM trace_reading AS r
        SEMI JOIN (SELECT ('0x' || right(trace_id, 16))::UBIGINT AS trace_key FROM keyed WHERE NOT are_too_many) AS k ON k.trace_key = r.trace_key
    )
),
event AS (
    SELECT
        k.*,
        p.* EXCLUDE (tenant, trace_id),
        count(*) FILTER (p.session_id IS NULL) OVER (
            PARTITION BY k.tenant, k.call_key, p.project
            ORDER BY k.at_us
            RANGE BETWEEN $hour_us PRECEDING AND $hour_us FOLLOWING
        ) AS nameless_near
    FROM keyed AS k
    LEFT JOIN party AS p ON p.tenant = k.tenant AND p.trace_id = k.trace_id
    WHERE NOT k.are_too_many
),
heard AS (
    SELECT *, session_id AS conversation
    FROM event
    WHERE session_id IS NOT NULL
    UNION ALL
    SELECT *, NULL AS conversation
    FROM event
),
fresh AS (
    SELECT *
    FROM heard
    QUALIFY NOT is_sent OR coalesce(
        at_us - lag(at_us) OVER (
            PARTITION BY tenant, call_key, project, conversation, is_sent, words
            ORDER BY start_time, trace_id, ordinal
        ) > $hour_us,
        true
    )
),
counted AS (
    SELECT
        *,
        coalesce(sum(if(is_sent, -1, 1)) OVER (calls ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS open_before,
        lead(if(is_sent, place, NULL)) OVER calls AS result_place,
        lead(at_us) OVER calls AS result_us,
        lead(session_id) OVER calls AS result_session,
        lead(user_id) OVER calls AS result_user,
        lead(service_name) OVER calls AS result_service
    FROM fresh
    WINDOW calls AS (
        PARTITION BY tenant, call_key, project, conversation
        ORDER BY start_time, is_sent, trace_id, ordinal
    )
),
waiting AS (
    SELECT
        *,
        open_before - min(open_before) OVER (
            PARTITION BY tenant, call_key, project, conversation
            ORDER BY at_us
            RANGE BETWEEN $hour_us PRECEDING AND CURRENT ROW
        ) AS open_within
    FROM counted
),
completed AS MATERIALIZED (
    SELECT
        place,
        CASE
            WHEN open_within = 0
                AND result_us - at_us <= $hour_us
                AND (result_session = session_id) IS NOT false
                AND (result_user = user_id) IS NOT false
                AND (result_service = service_name) IS NOT false
                THEN result_place
        END AS result_place
    FROM waiting
    WHERE NOT is_sent
        AND conversation IS NOT DISTINCT FROM CASE WHEN nameless_near = 0 THEN session_id END
    UNION ALL
    SELECT place, NULL
    FROM keyed
    WHERE are_too_many AND NOT is_sent
),
told AS (
    SELECT c.place, r.result, coalesce(r.is_error, false) AS is_error, r.error
    FROM completed AS c
    LEFT JOIN (
        SELECT rowid AS place, result, is_error, error
        FROM tool_call
        WHERE rowid IN (SELECT result_place FROM completed)
    ) AS r ON r.place = c.result_place
)
UPDATE tool_call SET
    result = t.result,
    is_error = t.is_error,
    error = t.error,
    write_number = nextval('write_number')
FROM told AS t
WHERE tool_call.rowid = t.place
    AND tool_call.start_time BETWEEN make_timestamp_ns($first_ns) AND make_timestamp_ns($last_ns)
    AND (tool_call.result, tool_call.is_error, tool_call.error) IS DISTINCT FROM (t.result, t.is_error, t.error);
