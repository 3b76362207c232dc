-- Spans as they came, the resources and scopes that they name, a roll-up of traces, and how far the spool was read.
CREATE TABLE span (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    parent_span_id VARCHAR,
    trace_state VARCHAR,
    flags UINTEGER,
    name VARCHAR NOT NULL,
    kind INTEGER,
    start_time TIMESTAMP_NS NOT NULL,
    end_time TIMESTAMP_NS,
    attributes MAP(VARCHAR, VARCHAR),
    attribute_types VARCHAR,
    dropped_attributes_count UINTEGER,
    events STRUCT(
        "time" TIMESTAMP_NS,
        "name" VARCHAR,
        attributes MAP(VARCHAR, VARCHAR),
        attribute_types VARCHAR,
        dropped_attributes_count UINTEGER
    )[],
    dropped_events_count UINTEGER,
    links STRUCT(
        trace_id VARCHAR,
        span_id VARCHAR,
        trace_state VARCHAR,
        attributes MAP(VARCHAR, VARCHAR),
        attribute_types VARCHAR,
        dropped_attributes_count UINTEGER,
        flags UINTEGER
    )[],
    dropped_links_count UINTEGER,
    status_code INTEGER,
    status_message VARCHAR,
    project VARCHAR,
    service_name VARCHAR,
    resource_id UBIGINT,
    scope_id UBIGINT,
    received_at TIMESTAMP,
    batch BIGINT
);

CREATE TABLE resource (
    resource_id UBIGINT NOT NULL,
    attributes MAP(VARCHAR, VARCHAR),
    attribute_types VARCHAR,
    dropped_attributes_count UINTEGER,
    entity_refs STRUCT(schema_url VARCHAR, "type" VARCHAR, id_keys VARCHAR[], description_keys VARCHAR[])[],
    schema_url VARCHAR
);

CREATE TABLE scope (
    scope_id UBIGINT NOT NULL,
    "name" VARCHAR,
    "version" VARCHAR,
    attributes MAP(VARCHAR, VARCHAR),
    attribute_types VARCHAR,
    dropped_attributes_count UINTEGER,
    schema_url VARCHAR
);

-- What one commit brought of one trace. A trace is the sum of its parts; parts are never updated.
CREATE TABLE trace_part (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    start_time TIMESTAMP_NS NOT NULL,
    last_start_time TIMESTAMP_NS NOT NULL,
    end_time TIMESTAMP_NS,
    span_count BIGINT NOT NULL,
    error_count BIGINT NOT NULL,
    first_name VARCHAR,
    first_project VARCHAR,
    first_service_name VARCHAR,
    root_start_time TIMESTAMP_NS,
    root_name VARCHAR,
    root_project VARCHAR,
    root_service_name VARCHAR,
    expires_at TIMESTAMP,
    batch BIGINT NOT NULL
);

-- One row: the last commit, how far the spool is committed, and what became of the spans so far.
CREATE TABLE ingest_state (
    batch BIGINT NOT NULL,
    spool_sequence BIGINT NOT NULL,
    spool_rows BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    already_present BIGINT NOT NULL
);

INSERT INTO ingest_state VALUES (0, 0, 0, 0, 0);
