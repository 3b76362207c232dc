-- Traces that start in a stretch of time, newest first, of which is true what is asked. A trace that began before it may be
-- among them. A line that ends with the name of a question is left out where that is not asked (`whole`: one about all
-- parts of a trace; `plain`: none such); the one about an attribute stands there for each.
SELECT tenant, trace_id, epoch_ns(min(start_time))
FROM trace_part
SEMI JOIN ( -- read
    SELECT tenant, trace_id -- read
    FROM trace_reading -- read
    WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- read
        AND session_id = $session -- session
        AND (contains(lower("input"), $text) OR contains(lower("output"), $text)) -- text
) AS told USING (tenant, trace_id) -- read
SEMI JOIN ( -- spans
    SELECT s.tenant, s.trace_id -- spans
    FROM span AS s -- spans
    WHERE s.start_time > make_timestamp_ns($floor_ns) AND s.start_time <= make_timestamp_ns($latest_ns) -- spans
        AND s.model = $model -- model
        AND coalesce(s.attributes[$key] = $value, (s.resource_attributes::JSON::MAP(VARCHAR, VARCHAR))[$key] = $value, false) -- attribute
) AS like_this USING (tenant, trace_id) -- spans
SEMI JOIN ( -- judged
    SELECT tenant, trace_id -- judged
    FROM evaluation -- judged
    WHERE job_id NOT IN (SELECT job_id FROM superseded) -- judged
        AND revision IN (SELECT revision FROM rule_revision WHERE rule_id = $rule OR rule = $rule) -- rule
        AND outcome = $outcome -- outcome
        AND passed = $passed -- passed
) AS judged USING (tenant, trace_id) -- judged
WHERE start_time > make_timestamp_ns($floor_ns)
    AND start_time <= make_timestamp_ns($until_ns) -- plain
    AND trace_key IN ( -- whole
        SELECT trace_key -- whole
        FROM trace_part -- whole
        WHERE start_time > make_timestamp_ns($floor_ns) AND start_time <= make_timestamp_ns($until_ns) -- whole
    ) -- whole
    AND ($tenant IS NULL OR tenant IN ($tenant, ''))
GROUP BY tenant, trace_id
HAVING min(start_time) <= make_timestamp_ns($until_ns)
    AND coalesce(arg_min(root_project, root_start_time), arg_min(first_project, start_time)) = $project -- project
    AND coalesce(arg_min(root_service_name, root_start_time), arg_min(first_service_name, start_time)) = $service -- service
    AND contains(lower(coalesce(arg_min(root_name, root_start_time), arg_min(first_name, start_time))), $name) -- name
    AND sum(error_count) > 0 -- is_error
    AND sum(error_count) = 0 -- is_ok
    AND (min(start_time) < make_timestamp_ns($cursor_ns) OR trace_id > $cursor_trace OR (trace_id = $cursor_trace AND tenant > $cursor_tenant)) -- cursor
ORDER BY min(start_time) DESC, trace_id, tenant
LIMIT $limit;
