-- Log records that carry what was said in a span, and what became of those that came so far.
CREATE TABLE log_record (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    "time" TIMESTAMP_NS NOT NULL,
    observed_time TIMESTAMP_NS NOT NULL,
    logged_at TIMESTAMP_NS NOT NULL, -- the time, or where the sender set none, the observed time
    event_name VARCHAR NOT NULL,
    severity_number INTEGER,
    severity_text VARCHAR,
    body VARCHAR,
    body_type VARCHAR,
    attributes MAP(VARCHAR, VARCHAR),
    attribute_types VARCHAR,
    dropped_attributes_count UINTEGER,
    flags UINTEGER,
    resource_id UBIGINT,
    scope_id UBIGINT,
    record_id UBIGINT NOT NULL, -- a hash of the content: copies of a record have the same
    received_at TIMESTAMP,
    batch BIGINT NOT NULL
);

ALTER TABLE ingest_state ADD COLUMN logs_stored BIGINT DEFAULT 0;

ALTER TABLE ingest_state ADD COLUMN logs_already_present BIGINT DEFAULT 0;
