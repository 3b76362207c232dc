-- Every stored log record, one row each; it belongs to the span with the same trace and span id.
CREATE OR REPLACE VIEW logs AS
SELECT
    l.tenant,
    l.trace_id,
    l.span_id,
    l.logged_at AS "time",
    l.event_name,
    l.severity_text,
    l.body,
    l.attributes,
    r.attributes AS resource_attributes,
    c.name AS scope_name
FROM log_record AS l
LEFT JOIN resource AS r ON r.resource_id = l.resource_id
LEFT JOIN scope AS c ON c.scope_id = l.scope_id;
