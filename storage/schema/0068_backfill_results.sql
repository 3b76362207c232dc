-- Results of jobs over traces that moved to the lake. Jobs write them to the lake alone: the table here stays empty,
-- and says which columns they have.
CREATE TABLE backfill_result (
    job VARCHAR NOT NULL, -- its id
    tenant VARCHAR NOT NULL,
    project VARCHAR,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR, -- NULL: it is about the trace
    start_time TIMESTAMP_NS NOT NULL, -- of what was judged
    rule_id VARCHAR, -- NULL, and so the two after it: an evaluator was tried without a rule
    revision INTEGER,
    rule VARCHAR,
    evaluator VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    fingerprint VARCHAR,
    outcome VARCHAR NOT NULL,
    score DOUBLE,
    passed BOOLEAN,
    threshold DOUBLE,
    reason VARCHAR,
    error_kind VARCHAR,
    metadata VARCHAR,
    judge_model VARCHAR,
    judge_calls INTEGER,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost_usd DOUBLE,
    latency_ms DOUBLE,
    created_at TIMESTAMP NOT NULL,
    write_number BIGINT DEFAULT nextval('write_number') -- of the trace's last part, with which they leave the lake
);
