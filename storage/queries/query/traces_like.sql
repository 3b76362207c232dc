-- Return matching traces that start in a stretch of time, newest first. A trace that began before it may be among them.
-- A line that ends with the name of a condition is kept only if the search has it. That of an attribute is repeated for
-- each. `whole` is a condition on all parts of a trace, and `plain` is the absence of one. `by_` orders traces by an
-- amount. `summed` returns their sums and fields too, not only their ids. `begun` leaves out those that began in a time
-- before. `newer` returns the traces before a place of the list, from the nearest on. `spans_with_text` stands for that
-- statement. Resources repeat, so each is read once. Reading the JSON of every span took more time than looking at its
-- map.
WITH resources AS MATERIALIZED ( -- attribute
    SELECT DISTINCT resource_attributes AS told -- attribute
    FROM span -- attribute
    WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($latest_ns) -- attribute
        AND batch BETWEEN $first_batch AND $last_batch -- attribute
) -- attribute
SELECT tenant, trace_id, epoch_ns(min(start_time)) AS start_ns
    , (epoch_ns(max(end_time)) - epoch_ns(min(start_time))) / 1e6 AS duration_ms -- summed
    , sum(error_count) > 0 AS is_failed -- summed
    , coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time), '') AS project -- summed
    , coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time), '') AS service -- summed
FROM trace_part
SEMI JOIN ( -- read
    SELECT tenant, trace_id -- read
    FROM trace_reading -- read
    WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- read
        AND session_id = $session -- session
        AND user_id = $user -- user
        AND cost_usd >= $least_usd -- least_usd
) AS told USING (tenant, trace_id) -- read
SEMI JOIN ( -- spans
    SELECT s.tenant, s.trace_id -- spans
    FROM span AS s -- spans
    WHERE s.start_time > make_timestamp_ns($floor_ns) AND s.start_time <= make_timestamp_ns($latest_ns) -- spans
        AND s.batch BETWEEN $first_batch AND $last_batch -- spans
        AND s.model = $model -- model
        AND s.name = $failing AND s.status_code = 2 -- failing
        AND s.service_version = $release -- release
        AND coalesce(s.attributes[$key] = $value, s.resource_attributes IN (SELECT told FROM resources WHERE (told::JSON::MAP(VARCHAR, VARCHAR))[$key] = $value), false) -- attribute
) AS like_this USING (tenant, trace_id) -- spans
SEMI JOIN ( -- text
    SELECT tenant, trace_id -- text
    FROM trace_reading -- text
    WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- text
        AND (regexp_matches("input", $text) OR regexp_matches("output", $text)) -- text
    UNION ALL -- text
    FROM spans_with_text -- text
) AS with_text USING (tenant, trace_id) -- text
SEMI JOIN ( -- judged
    SELECT tenant, trace_id -- judged
    FROM evaluation -- judged
    WHERE seq BETWEEN $first_seq AND $last_seq -- judged
        AND job_id NOT IN (SELECT job_id FROM superseded) -- judged
        AND revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule OR rule = $rule) -- rule
        AND outcome = $outcome -- outcome
        AND passed = $passed -- passed
) AS judged USING (tenant, trace_id) -- judged
LEFT JOIN ( -- amounts
    SELECT tenant, trace_id, cost_usd, coalesce(input_tokens, 0)::HUGEINT + coalesce(output_tokens, 0) AS tokens -- amounts
    FROM trace_reading -- amounts
    WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- amounts
) AS told_amounts USING (tenant, trace_id) -- amounts
LEFT JOIN ( -- scores
    SELECT tenant, trace_id, avg(score) AS score -- scores
    FROM evaluation -- scores
    WHERE outcome = 'scored' AND job_id NOT IN (SELECT job_id FROM superseded) -- scores
    GROUP BY tenant, trace_id -- scores
) AS mean_scores USING (tenant, trace_id) -- scores
WHERE start_time > make_timestamp_ns($floor_ns)
    AND start_time <= make_timestamp_ns($until_ns) -- plain
    AND trace_key IN ( -- whole
        SELECT trace_key -- whole
        FROM trace_part -- whole
        WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- whole
    ) -- whole
    AND trace_key NOT IN ( -- begun
        SELECT trace_key -- begun
        FROM trace_part -- begun
        WHERE start_time > make_timestamp_ns($before_ns) AND start_time <= make_timestamp_ns($floor_ns) -- begun
            AND trace_key IS NOT NULL -- begun
    ) -- begun
    AND ($tenant IS NULL OR tenant IN ($tenant, ''))
GROUP BY tenant, trace_id
HAVING min(start_time) <= make_timestamp_ns($until_ns)
    AND coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) = $project -- project
    AND coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time)) = $service -- service
    AND contains(lower(coalesce(arg_min(root_name, root_start_time), arg_min(first_name, start_time))), $name) -- name
    AND epoch_ns(max(end_time)) - epoch_ns(min(start_time)) >= $least_ns -- least_ns
    AND sum(error_count) > 0 -- is_error
    AND sum(error_count) = 0 -- is_ok
    AND (min(start_time) < make_timestamp_ns($cursor_ns) OR trace_id > $cursor_trace OR (trace_id = $cursor_trace AND tenant > $cursor_tenant)) -- cursor
    AND (min(start_time) > make_timestamp_ns($cursor_ns) OR trace_id < $cursor_trace OR (trace_id = $cursor_trace AND tenant < $cursor_tenant)) -- newer
ORDER BY -- listed
    epoch_ns(max(end_time)) - epoch_ns(min(start_time)) DESC NULLS LAST, -- by_duration
    max(cost_usd) DESC NULLS LAST, -- by_cost
    max(tokens) DESC NULLS LAST, -- by_tokens
    min(score) NULLS LAST, -- by_score
    min(start_time), trace_id DESC, tenant DESC, -- newer
    min(start_time) DESC, trace_id, tenant -- listed
LIMIT $limit;
