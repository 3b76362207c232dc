-- What spans and traces mean, read of them after their commit. Rows of these tables may be replaced; spans never are.
-- `seq` numbers spans in the order of their commits.
ALTER TABLE span ADD COLUMN seq BIGINT;

UPDATE span SET seq = rowid;

CREATE TABLE reading (
    seq BIGINT NOT NULL,
    span_type VARCHAR NOT NULL,
    dialect VARCHAR,
    input VARCHAR,
    "output" VARCHAR,
    input_messages VARCHAR,
    output_messages VARCHAR,
    tool_name VARCHAR,
    tool_call_id VARCHAR,
    tool_arguments VARCHAR,
    tool_result VARCHAR,
    tool_definitions VARCHAR,
    model VARCHAR,
    provider VARCHAR,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cached_tokens BIGINT,
    reasoning_tokens BIGINT,
    cost_usd DOUBLE,
    session_id VARCHAR,
    user_id VARCHAR,
    error VARCHAR,
    error_type VARCHAR,
    notes VARCHAR,
    -- Where a text is an attribute's as it came, or its JSON says the same, the key stands here and the text is NULL;
    -- where it is one text of the messages, its path in their JSON does.
    input_key VARCHAR,
    output_key VARCHAR,
    input_messages_key VARCHAR,
    output_messages_key VARCHAR,
    tool_arguments_key VARCHAR,
    tool_result_key VARCHAR,
    input_path VARCHAR,
    output_path VARCHAR
);

CREATE TABLE tool_call (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    ordinal INTEGER NOT NULL,
    call_id VARCHAR,
    "name" VARCHAR NOT NULL,
    arguments VARCHAR,
    result VARCHAR,
    is_error BOOLEAN NOT NULL,
    error VARCHAR,
    start_time TIMESTAMP_NS NOT NULL,
    end_time TIMESTAMP_NS
);

CREATE TABLE trace_reading (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    start_time TIMESTAMP_NS NOT NULL,
    input VARCHAR,
    "output" VARCHAR,
    final_response VARCHAR,
    session_id VARCHAR,
    user_id VARCHAR,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost_usd DOUBLE,
    tool_call_count INTEGER NOT NULL
);

-- Traces whose later spans or log records are read, but not added up yet.
CREATE TABLE trace_due (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL
);

-- One row: spans up to `seq` and log records up to the commit `log_batch` are read, and by which edition of the
-- conventions; spans after `again_after` up to `again_until` are to be read again because an older edition read them.
CREATE TABLE reading_state (
    edition VARCHAR,
    seq BIGINT NOT NULL,
    log_batch BIGINT NOT NULL,
    again_after BIGINT NOT NULL,
    again_until BIGINT NOT NULL
);

INSERT INTO reading_state VALUES (NULL, -1, 0, -1, -1);
