-- Rules and their revisions, what each decided of each span and trace, the work that follows, and what came of it.
-- Times are UTC by our own clock.
CREATE TABLE project (
    tenant VARCHAR NOT NULL,
    project_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL
);

-- One row each, updated in place; a deleted rule keeps its row, because its results name it.
CREATE TABLE rule (
    tenant VARCHAR NOT NULL,
    rule_id VARCHAR NOT NULL,
    project VARCHAR, -- NULL: about all
    "name" VARCHAR NOT NULL,
    origin VARCHAR NOT NULL, -- API or FILE
    "file" VARCHAR,
    "text" VARCHAR NOT NULL, -- as it was written
    enabled BOOLEAN NOT NULL,
    revision INTEGER NOT NULL, -- the one in force
    "version" INTEGER NOT NULL, -- counts the changes of this row
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP
);

-- What a rule said at one time. Rows are never changed; the number tells a revision of one rule from all others.
CREATE TABLE rule_revision (
    revision INTEGER NOT NULL,
    rule_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL,
    digest VARCHAR NOT NULL,
    rule VARCHAR NOT NULL, -- its name
    project VARCHAR,
    target VARCHAR NOT NULL, -- SPAN or TRACE
    evaluator VARCHAR NOT NULL, -- the name of its kind
    document VARCHAR NOT NULL, -- everything it says, as JSON
    clauses VARCHAR[] NOT NULL, -- how its clauses are told, in order
    created_at TIMESTAMP NOT NULL
);

-- What matching found, a row for each revision and span, or trace: that goes by the number of its last span at the time.
CREATE TABLE decision (
    revision INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    outcome UTINYINT NOT NULL, -- 0 filtered, 1 sampled out, 2 matched, 3 undecided, because of a fault of ours
    clause USMALLINT, -- the number of the one that filtered it
    decided_at TIMESTAMP NOT NULL
);

-- Evaluations to be made. A row leaves when its evaluation is stored.
CREATE TABLE job (
    job_id BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    seq BIGINT NOT NULL, -- that of its decision
    tenant VARCHAR NOT NULL,
    project VARCHAR,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR, -- NULL: the trace
    release VARCHAR, -- the value of the rule's `compareBy`
    round INTEGER NOT NULL, -- 0; one more each time that the same target is to be evaluated again
    "state" VARCHAR NOT NULL, -- ready or claimed
    attempts INTEGER NOT NULL,
    not_before TIMESTAMP,
    claimed_until TIMESTAMP,
    error_kind VARCHAR, -- of the last attempt
    error VARCHAR,
    created_at TIMESTAMP NOT NULL,
    occasion VARCHAR NOT NULL DEFAULT 'live' -- live; backfill; or again: a score of an earlier round was counted
);

-- What came of each job, a row each. Rows are never changed.
CREATE TABLE evaluation (
    job_id BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    tenant VARCHAR NOT NULL,
    project VARCHAR,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR,
    release VARCHAR,
    round INTEGER NOT NULL,
    "name" VARCHAR NOT NULL, -- what the evaluator's outcomes are called
    fingerprint VARCHAR,
    outcome VARCHAR NOT NULL, -- scored, failed or skipped
    score DOUBLE,
    passed BOOLEAN,
    threshold DOUBLE,
    reason VARCHAR,
    error_kind VARCHAR, -- of what failed; over_budget and rule_deleted of what was skipped
    metadata VARCHAR, -- JSON
    judge_model VARCHAR,
    judge_calls INTEGER,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost_usd DOUBLE,
    latency_ms DOUBLE,
    attempts INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    enqueued_at TIMESTAMP, -- when its job was made
    number BIGINT, -- numbers results in the order in which they were stored, without two alike
    occasion VARCHAR NOT NULL DEFAULT 'live', -- of its job
    counted BOOLEAN NOT NULL DEFAULT false -- by monitors: the first score of its target, and not of a backfill
);

-- One row: the number of the last result.
CREATE TABLE result_state (
    last_number BIGINT NOT NULL
);

INSERT INTO result_state VALUES (0);

-- Jobs whose evaluation no longer counts, because the same target was evaluated again, or is to be.
CREATE TABLE superseded (
    job_id BIGINT NOT NULL,
    superseded_at TIMESTAMP NOT NULL
);

-- What came, window by window, of traces that have not settled since: a trace that has settled has no rows.
CREATE TABLE trace_open (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    first_at TIMESTAMP NOT NULL, -- when its spans were seen
    last_at TIMESTAMP NOT NULL,
    root_ended BOOLEAN NOT NULL,
    span_count BIGINT NOT NULL,
    last_seq BIGINT NOT NULL
);

-- One row: spans up to `seq` are matched; the number of the last job.
CREATE TABLE matching_state (
    seq BIGINT NOT NULL,
    last_job BIGINT NOT NULL
);

INSERT INTO matching_state VALUES (-1, 0);

-- A rule run over what was stored before it. What it has looked at is the same transaction as what it decided.
CREATE TABLE backfill (
    backfill_id VARCHAR NOT NULL,
    revision INTEGER NOT NULL,
    from_time TIMESTAMP_NS NOT NULL,
    to_time TIMESTAMP_NS NOT NULL,
    after_seq BIGINT NOT NULL, -- how far it is
    until_seq BIGINT NOT NULL,
    looked_at BIGINT NOT NULL,
    matched BIGINT NOT NULL,
    "state" VARCHAR NOT NULL, -- running, done, cancelled or failed
    error VARCHAR,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);

-- Where judges are reached. The key is encrypted, and stands nowhere else.
CREATE TABLE llm_connection (
    tenant VARCHAR NOT NULL,
    connection_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    origin VARCHAR NOT NULL, -- API or FILE
    document VARCHAR NOT NULL, -- JSON, without the key
    secret BLOB,
    "version" INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP
);

-- Every request to a judge: what was set aside for it before it was made, and what it took.
CREATE TABLE judge_call (
    call_id BIGINT NOT NULL,
    day DATE NOT NULL, -- UTC
    tenant VARCHAR NOT NULL,
    project VARCHAR,
    rule_id VARCHAR,
    connection_id VARCHAR NOT NULL,
    job_id BIGINT,
    reserved_tokens BIGINT NOT NULL,
    reserved_usd DOUBLE NOT NULL,
    input_tokens BIGINT,
    output_tokens BIGINT,
    tokens BIGINT, -- NULL until it is settled; what is never settled counts as it was reserved
    usd DOUBLE,
    outcome VARCHAR, -- answered, or the kind of failure
    started_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP
);
