-- Stored log records, one row each. A log record belongs to the span with the same trace and span id.
CREATE OR REPLACE VIEW logs AS
SELECT
    tenant,
    trace_id,
    span_id,
    logged_at AS "time",
    event_name,
    severity_text,
    body,
    attributes,
    resource_attributes::JSON::MAP(VARCHAR, VARCHAR) AS resource_attributes,
    scope_name
FROM log_record;
