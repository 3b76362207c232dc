-- Give calls without a result the first one that another trace was sent within an hour, and take it back if it left. Where
-- equal calls (of one key) of a tenant are open at the same time, nothing tells whose a result is, and they have none. What
-- a call has follows from the rows alone, in whatever order these came. The bounds, two hours around what changed, let row
-- groups be skipped. Times are compared as numbers: an interval added to one of the year 2262 has no TIMESTAMP_NS.
WITH changed AS (
    SELECT DISTINCT tenant, call_key
    FROM changed_calls
),
event AS (
    SELECT rowid AS place, tenant, call_key, is_sent, start_time
    FROM tool_call
    SEMI JOIN changed USING (tenant, call_key)
    WHERE start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
        AND call_key IS NOT NULL
),
numbered AS (
    SELECT
        *,
        count(*) FILTER (NOT is_sent) OVER (
            PARTITION BY tenant, call_key
            ORDER BY start_time, is_sent, place
            ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM event
),
exchange AS (
    SELECT
        tenant,
        call_key,
        number,
        min(place) FILTER (NOT is_sent) AS place,
        epoch_ns(min(start_time) FILTER (NOT is_sent)) AS start_ns,
        arg_min(place, start_time) FILTER (is_sent) AS result_place,
        epoch_ns(min(start_time) FILTER (is_sent)) AS result_ns
    FROM numbered
    GROUP BY tenant, call_key, number
),
completed AS MATERIALIZED (
    SELECT
        place,
        CASE
            WHEN result_ns <= start_ns + $hour_ns::HUGEINT
                AND (
                    lag(result_place) OVER calls IS NOT NULL
                    OR coalesce(lag(start_ns) OVER calls < start_ns - $hour_ns::HUGEINT, true)
                )
                THEN result_place
        END AS result_place
    FROM exchange
    WHERE number > 0
    WINDOW calls AS (PARTITION BY tenant, call_key ORDER BY number)
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
    error = t.error
FROM told AS t
WHERE tool_call.rowid = t.place
    AND tool_call.start_time BETWEEN make_timestamp_ns($from_ns) AND make_timestamp_ns($to_ns)
    AND (tool_call.result, tool_call.is_error, tool_call.error) IS DISTINCT FROM (t.result, t.is_error, t.error);
