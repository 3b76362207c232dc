-- All tables of v0.1.0, in place of the steps 1 to 49 that files of this version have seen. Times of our own are UTC.

-- Spans: what was sent, and what it means.
CREATE TABLE span (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    parent_span_id VARCHAR,
    trace_state VARCHAR,
    flags UINTEGER,
    "name" VARCHAR NOT NULL,
    kind INTEGER,
    start_time TIMESTAMP_NS NOT NULL,
    end_time TIMESTAMP_NS,
    duration_ms DOUBLE,
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
    service_version VARCHAR,
    resource_attributes VARCHAR, -- a JSON object
    resource_meta VARCHAR,
    scope_name VARCHAR,
    scope_version VARCHAR,
    scope_attributes VARCHAR, -- a JSON object
    scope_meta VARCHAR,
    received_at TIMESTAMP,
    batch BIGINT,
    seq BIGINT, -- numbers spans in the order of their commits; a row that is replaced keeps its number
    span_type VARCHAR,
    dialect VARCHAR,
    input VARCHAR,
    "output" VARCHAR,
    input_messages VARCHAR,
    input_messages_key VARCHAR, -- of the attribute that says the same: then the text is NULL. So with each `…_key`.
    output_messages VARCHAR,
    output_messages_key VARCHAR,
    tool_name VARCHAR,
    tool_call_id VARCHAR,
    tool_arguments VARCHAR,
    tool_arguments_key VARCHAR,
    tool_result VARCHAR,
    tool_result_key VARCHAR,
    tool_definitions VARCHAR,
    model VARCHAR,
    provider VARCHAR,
    response_id VARCHAR,
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
    output_is_answer BOOLEAN, -- the output is the last words of the messages; NULL: look there
    pending BOOLEAN, -- announces a span that is sent again when it has ended
    edition INTEGER, -- of the conventions by which the row was read; NULL: of none
    cost_source VARCHAR, -- the prices that the cost was computed by; NULL: its span has the cost, or there is none
    run_id VARCHAR, -- of an experiment; NULL for all others
    item_key VARCHAR, -- of that run
    tool_result_is_text BOOLEAN -- NULL: what is stored is JSON, or there is none
);

-- Log records about spans, as they were sent.
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
    resource_attributes VARCHAR,
    resource_meta VARCHAR,
    scope_name VARCHAR,
    scope_version VARCHAR,
    scope_attributes VARCHAR,
    scope_meta VARCHAR,
    record_id UBIGINT NOT NULL, -- a hash of the content: copies of a record have the same
    received_at TIMESTAMP,
    batch BIGINT NOT NULL
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
    batch BIGINT NOT NULL,
    trace_key UBIGINT -- finds the parts of a trace: reading these takes a tenth of reading the ids
);

-- One row: the last commit, how far the spool is committed, and what became of the spans so far.
CREATE TABLE ingest_state (
    batch BIGINT NOT NULL,
    spool_sequence BIGINT NOT NULL,
    spool_rows BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    already_present BIGINT NOT NULL,
    logs_stored BIGINT DEFAULT 0,
    logs_already_present BIGINT DEFAULT 0,
    set_aside BIGINT DEFAULT 0 -- spans and log records that DuckDB refused, written to files instead
);
INSERT INTO ingest_state VALUES (0, 0, 0, 0, 0, 0, 0, 0);

-- What tools were called in spans, in order: a row each.
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

-- What a trace means, added up of its spans and parts: a row each.
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
    tool_call_count INTEGER NOT NULL,
    span_count BIGINT, -- when it was added up: with more by its parts, it is to be added up again
    trace_key UBIGINT,
    edition INTEGER, -- the earliest that read one of them
    root_name VARCHAR, -- from here on the sums of its parts, so that questions about traces read one row each
    project VARCHAR,
    service_name VARCHAR,
    last_start_time TIMESTAMP_NS,
    end_time TIMESTAMP_NS,
    stored_span_count BIGINT, -- `span_count` is of those that the sums are of
    error_count BIGINT,
    expires_at TIMESTAMP
);

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
    occasion VARCHAR NOT NULL DEFAULT 'live', -- live; backfill; or again: a score of an earlier round was counted
    judge_calls INTEGER, -- of earlier attempts, as are the next three, so that the result carries the cost of all
    input_tokens BIGINT, -- What the attempts of a job took that were made before it was put back, so that its result carries the cost of all.
    output_tokens BIGINT, -- What the attempts of a job took that were made before it was put back, so that its result carries the cost of all.
    cost_usd DOUBLE, -- What the attempts of a job took that were made before it was put back, so that its result carries the cost of all.
    session_id VARCHAR, -- NULL: it is about the trace, or the span; else `trace_id` is the session's latest
    service VARCHAR, -- of what is judged: releases of two services are never compared; NULL: unknown
    started_at TIMESTAMP -- of what is judged; NULL: unknown, then the time of the judgement counts
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
    counted BOOLEAN NOT NULL DEFAULT false, -- by monitors: the first score of its target, and not of a backfill
    session_id VARCHAR, -- NULL: it is about the trace, or the span; else `trace_id` is the session's latest
    service VARCHAR, -- of what was judged; NULL: unknown
    started_at TIMESTAMP -- of what was judged; NULL: unknown
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
    updated_at TIMESTAMP NOT NULL,
    trace_ids VARCHAR[] -- of a backfill of chosen traces until it ends, then as many empty texts; NULL: all traces of its time
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

-- An episode of lower quality. Its numbers are those at the time it was opened, and outlive the results that they are of.
CREATE TABLE alert (
    tenant VARCHAR NOT NULL,
    alert_id VARCHAR NOT NULL, -- follows from `episode`
    episode VARCHAR NOT NULL, -- what whoever raised it tells it from all others by
    project VARCHAR,
    rule_id VARCHAR NOT NULL,
    "rule" VARCHAR NOT NULL, -- its name
    revision INTEGER NOT NULL,
    kind VARCHAR NOT NULL, -- release or drift
    evaluator VARCHAR NOT NULL, -- what the evaluator's outcomes are called
    fingerprint VARCHAR,
    measure VARCHAR NOT NULL, -- passed: rates are shares of what passed; score: they are mean scores
    "state" VARCHAR NOT NULL, -- open, acknowledged or recovered
    baseline VARCHAR, -- release
    baseline_rate DOUBLE NOT NULL,
    baseline_low DOUBLE NOT NULL,
    baseline_high DOUBLE NOT NULL,
    baseline_count BIGINT NOT NULL,
    candidate VARCHAR, -- release
    candidate_rate DOUBLE NOT NULL,
    candidate_low DOUBLE NOT NULL,
    candidate_high DOUBLE NOT NULL,
    candidate_count BIGINT NOT NULL,
    regressed_count BIGINT NOT NULL,
    evidence DOUBLE NOT NULL,
    evidence_threshold DOUBLE NOT NULL,
    "document" VARCHAR NOT NULL, -- JSON: examples, and the SQL that reproduces the numbers
    recovery VARCHAR, -- JSON: what showed that it was over
    acknowledged_by VARCHAR,
    opened_at TIMESTAMP NOT NULL,
    acknowledged_at TIMESTAMP,
    recovered_at TIMESTAMP,
    metric VARCHAR, -- NULL: the results of a rule
    severity VARCHAR DEFAULT 'warning', -- info, warning or critical
    escalations INTEGER DEFAULT 0, -- how often it was told that it is worse than was told before
    escalated_at TIMESTAMP -- the last time
);

-- What receivers are told. The id is the same however often it is told, and to whomever.
CREATE TABLE alert_event (
    tenant VARCHAR NOT NULL,
    event_id VARCHAR NOT NULL,
    project VARCHAR,
    "type" VARCHAR NOT NULL, -- alert.opened, alert.acknowledged, alert.recovered or webhook.test
    alert_id VARCHAR, -- NULL: a test
    "document" VARCHAR NOT NULL, -- JSON, as of that moment
    created_at TIMESTAMP NOT NULL
);

-- Who is told. What is secret about a receiver stands in `sealed` only, encrypted.
CREATE TABLE alert_webhook (
    tenant VARCHAR NOT NULL,
    webhook_id VARCHAR NOT NULL,
    project VARCHAR, -- NULL: all
    origin VARCHAR NOT NULL, -- API or FILE
    url VARCHAR NOT NULL, -- shortened where it is a secret
    template VARCHAR NOT NULL,
    events VARCHAR[] NOT NULL,
    enabled BOOLEAN NOT NULL,
    sealed BLOB,
    has_secret BOOLEAN NOT NULL,
    previous_until TIMESTAMP, -- until when the secret before is used as well
    disabled_at TIMESTAMP, -- by us
    disabled_reason VARCHAR,
    failing_since TIMESTAMP, -- of the first failure after the last success
    failures INTEGER NOT NULL, -- deliveries given up since the last success
    last_success_at TIMESTAMP,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP,
    "version" INTEGER DEFAULT 1, -- counts the changes
    rules VARCHAR[], -- names or ids, of monitors of metrics too; NULL: all
    severities VARCHAR[], -- NULL: all
    digest_minutes INTEGER -- an event waits for the next full multiple since the Unix epoch; NULL: sent at once
);

-- The outbox: a row for each event and receiver, written in the transaction of the event.
CREATE TABLE alert_delivery (
    delivery_id VARCHAR NOT NULL, -- follows from the event and the receiver
    tenant VARCHAR NOT NULL,
    event_id VARCHAR NOT NULL,
    webhook_id VARCHAR NOT NULL,
    "type" VARCHAR NOT NULL, -- of the event
    "state" VARCHAR NOT NULL, -- pending, delivered, failed (given up) or cancelled (the receiver was switched off)
    attempts INTEGER NOT NULL, -- since it was queued last
    replays INTEGER NOT NULL, -- how often it was queued again by hand
    not_before TIMESTAMP NOT NULL,
    last_attempt_at TIMESTAMP,
    last_status INTEGER,
    last_error VARCHAR,
    created_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP
);

-- Keys: who may ask for what.
CREATE TABLE api_key (
    key_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL, -- '' is a key of no tenant, which sees all of them
    "name" VARCHAR NOT NULL,
    "role" VARCHAR NOT NULL, -- VIEWER, EDITOR, ADMIN or INGEST
    digest BLOB NOT NULL, -- SHA-256 of the key, which itself stands nowhere
    hint VARCHAR NOT NULL, -- how the key begins, for the eye
    enabled BOOLEAN NOT NULL,
    expires_at TIMESTAMP,
    last_used_at TIMESTAMP, -- within some minutes
    created_at TIMESTAMP NOT NULL,
    created_by VARCHAR -- the key that made it; NULL: nobody was asked for one
);

-- Every write and every refused request. What repeats itself within a second is one row with a count.
CREATE TABLE audit (
    audit_id BIGINT NOT NULL, -- in the order of storing
    "at" TIMESTAMP NOT NULL, -- the first of them
    key_id VARCHAR, -- NULL: no key, or a wrong one
    key_name VARCHAR,
    tenant VARCHAR NOT NULL,
    address VARCHAR NOT NULL,
    "method" VARCHAR NOT NULL,
    "path" VARCHAR NOT NULL,
    status INTEGER NOT NULL,
    detail VARCHAR, -- why it was refused
    request_id VARCHAR, -- of the first
    times BIGINT NOT NULL
);

-- A trace that any row names is kept when it has expired. Whatever holds one inserts its row with its own `why`, and
-- deletes it; `hand` is a person's.
CREATE TABLE trace_pin (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    why VARCHAR NOT NULL,
    pinned_at TIMESTAMP NOT NULL
);

-- What became of evaluations whose traces are gone, added up by the day (UTC) on which they were made. A sweep adds
-- rows of its own, so one key may have several.
CREATE TABLE evaluation_day (
    day DATE NOT NULL,
    tenant VARCHAR NOT NULL,
    project VARCHAR,
    revision INTEGER NOT NULL,
    "name" VARCHAR NOT NULL,
    fingerprint VARCHAR,
    release VARCHAR,
    scored BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    passed BIGINT NOT NULL,
    not_passed BIGINT NOT NULL,
    score_sum DOUBLE NOT NULL,
    score_square_sum DOUBLE NOT NULL,
    judge_calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd DOUBLE NOT NULL,
    service VARCHAR,
    started_day DATE,
    counted BIGINT DEFAULT 0 -- of `scored`, those that monitors counted
);

-- A stream of results that are compared with each other.
CREATE TABLE monitor_state (
    tenant VARCHAR NOT NULL,
    project VARCHAR, -- NULL: spans that name none
    rule_id VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL, -- of the evaluator
    "state" VARCHAR NOT NULL, -- JSON: follows from the results alone
    since TIMESTAMP NOT NULL, -- of the first result that is compared with
    updated TIMESTAMP NOT NULL, -- of the last one
    service VARCHAR
);

-- One row: results up to `number` are in the states.
CREATE TABLE monitor_cursor (
    number BIGINT NOT NULL,
    told BIGINT NOT NULL, -- what happened up to this result was told before the states were built again
    edition INTEGER NOT NULL -- of what the states look like
);
INSERT INTO monitor_cursor VALUES (0, 0, 0);

-- How far results were told to the endpoint of the operator's, and who we are: what we told is no score from elsewhere.
CREATE TABLE results_out (
    number BIGINT NOT NULL, -- results up to this one were told
    instance VARCHAR NOT NULL
);
INSERT INTO results_out VALUES (0, uuid()::VARCHAR);

-- What somebody asked to be deleted, and how far that is.
CREATE TABLE deletion (
    deletion_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR, -- what of these is not NULL is true of what is to go; once that is gone, whom it names is forgotten
    project VARCHAR,
    session_id VARCHAR,
    user_id VARCHAR,
    before_time TIMESTAMP_NS,
    filters VARCHAR[] NOT NULL, -- the names of what was not NULL
    "state" VARCHAR NOT NULL, -- deleting; erasing: no rows are left, but bytes on the disk; done
    after_batch BIGINT NOT NULL, -- commits up to this one were looked through
    until_batch BIGINT NOT NULL, -- the last one when it was asked for
    traces BIGINT NOT NULL, -- that are gone
    spans BIGINT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    created_by VARCHAR, -- the name of a key
    rows_gone_at TIMESTAMP,
    finished_at TIMESTAMP,
    began_batch BIGINT DEFAULT -1, -- it began after this commit
    wrapped BOOLEAN DEFAULT false -- whether it is at the commits up to `began_batch` now
);

-- The editions of the conventions that read rows of this file: the digest of the code and of the operator's own keys.
CREATE TABLE edition (
    edition INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    last_used TIMESTAMP NOT NULL
);

-- One row: the traces of the commits up to `batch` are added up.
CREATE TABLE trace_state (
    batch BIGINT NOT NULL
);
INSERT INTO trace_state VALUES (0);

-- Datasets: their versions, the items that versions are made of, and which version has which. A
-- dataset has one row, updated in place; one that was deleted keeps it, because runs name it.
CREATE TABLE dataset (
    tenant VARCHAR NOT NULL,
    dataset_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    tags VARCHAR[] NOT NULL,
    input_schema VARCHAR, -- a JSON Schema
    expected_schema VARCHAR, -- likewise
    "version" INTEGER NOT NULL, -- counts the changes of this row
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP
);

-- Versions of datasets. Rows are never changed.
CREATE TABLE dataset_version (
    tenant VARCHAR NOT NULL,
    dataset_id VARCHAR NOT NULL,
    "version" INTEGER NOT NULL, -- from 1, without gaps
    version_key BIGINT NOT NULL, -- tells it from all versions of all datasets
    description VARCHAR NOT NULL,
    item_count BIGINT NOT NULL,
    added BIGINT NOT NULL, -- items that the version before it does not have
    removed BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    created_by VARCHAR, -- the name of the key
    created_at TIMESTAMP NOT NULL
);

-- What an item says. Rows are never changed, and shared by all versions in which the item says the same.
CREATE TABLE dataset_item (
    tenant VARCHAR NOT NULL,
    dataset_id VARCHAR NOT NULL,
    item_key BIGINT NOT NULL, -- tells it from all others
    item_id VARCHAR NOT NULL, -- the same in every version
    digest VARCHAR NOT NULL, -- of what it says
    inputs VARCHAR NOT NULL, -- JSON, and so are the next two
    expected_outputs VARCHAR NOT NULL,
    metadata VARCHAR NOT NULL,
    source VARCHAR, -- JSON: what it was promoted from
    created_at TIMESTAMP NOT NULL
);

-- The items of each version, in their order.
CREATE TABLE dataset_member (
    version_key BIGINT NOT NULL,
    ordinal INTEGER NOT NULL, -- from 0, without gaps
    item_key BIGINT NOT NULL
);

CREATE TABLE experiment (
    tenant VARCHAR NOT NULL,
    experiment_id VARCHAR NOT NULL,
    project VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL
);

-- Runs of experiments. One row each, updated in place.
CREATE TABLE run (
    tenant VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL, -- begins with the time, so that the rows of a run are found by it
    experiment_id VARCHAR NOT NULL,
    project VARCHAR NOT NULL,
    experiment VARCHAR NOT NULL, -- the name
    run_key VARCHAR, -- by which the sender knows it: one run of an experiment has it
    "name" VARCHAR,
    metadata VARCHAR NOT NULL, -- JSON
    git_sha VARCHAR,
    git_branch VARCHAR,
    triggered_by VARCHAR,
    dataset_id VARCHAR,
    dataset VARCHAR, -- the name
    dataset_version INTEGER,
    trials INTEGER NOT NULL, -- times that each item is to be run
    "state" VARCHAR NOT NULL, -- RUNNING, SUCCESS, FAILED or CANCELLED; EVALUATING follows from open evaluations
    state_reason VARCHAR,
    verdict VARCHAR, -- what a gate said
    idle_s BIGINT NOT NULL, -- without a report for so long, it was abandoned
    created_by VARCHAR, -- the name of the key
    started_at TIMESTAMP NOT NULL,
    reported_at TIMESTAMP NOT NULL, -- when something was last heard of it
    completed_at TIMESTAMP,
    looked_at TIMESTAMP, -- when it was compared with the one before; NULL: not yet
    pinned_at TIMESTAMP -- since when it is kept beyond its expiry; NULL: it is not
);

-- What came of an item in one trial. Rows are never changed.
CREATE TABLE run_item (
    tenant VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    item_number BIGINT NOT NULL, -- tells it from the items of all runs
    item_key VARCHAR NOT NULL, -- with the trial, it is told once in a run
    is_keyed BOOLEAN NOT NULL, -- whether the key names the same case in other runs
    dataset_item_id VARCHAR,
    trial INTEGER NOT NULL, -- from 1
    digest VARCHAR NOT NULL, -- of what was told
    inputs VARCHAR NOT NULL, -- JSON, and so are the next three
    expected_outputs VARCHAR NOT NULL,
    actual_outputs VARCHAR NOT NULL,
    metadata VARCHAR NOT NULL,
    error VARCHAR,
    error_kind VARCHAR,
    stop_reason VARCHAR,
    cached BOOLEAN,
    retries INTEGER,
    tokens_in BIGINT,
    tokens_out BIGINT,
    tokens_cached BIGINT,
    tokens_reasoning BIGINT,
    cost_usd DOUBLE,
    latency_ms DOUBLE,
    trace_id VARCHAR,
    span_id VARCHAR,
    created_at TIMESTAMP NOT NULL
);

-- What an evaluator said of an item. Rows are never changed.
CREATE TABLE run_score (
    tenant VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    item_number BIGINT NOT NULL,
    score_number BIGINT NOT NULL, -- in the order in which they were stored
    evaluation_id VARCHAR, -- NULL: it was reported with the item
    "name" VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL, -- scored, failed or skipped
    score DOUBLE,
    label VARCHAR,
    passed BOOLEAN,
    threshold DOUBLE,
    direction VARCHAR, -- which scores are better: higher or lower
    reason VARCHAR,
    error_kind VARCHAR,
    fingerprint VARCHAR,
    evaluator_version VARCHAR, -- as the sender declared it
    metadata VARCHAR, -- JSON
    judge_model VARCHAR,
    judge_calls INTEGER,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost_usd DOUBLE,
    latency_ms DOUBLE,
    created_at TIMESTAMP NOT NULL
);

-- Scores that no longer count, because the same evaluator was asked again under the same name.
CREATE TABLE superseded_score (
    run_id VARCHAR NOT NULL,
    score_number BIGINT NOT NULL
);

-- Evaluators that are asked about the items of a run. One row each, updated in place.
CREATE TABLE run_evaluation (
    tenant VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    evaluation_id VARCHAR NOT NULL,
    evaluator VARCHAR NOT NULL, -- the name of its kind
    "name" VARCHAR NOT NULL, -- what its scores are called
    configuration VARCHAR NOT NULL, -- JSON
    connection VARCHAR,
    "state" VARCHAR NOT NULL, -- waiting, running, done, failed or cancelled
    error VARCHAR,
    created_by VARCHAR,
    created_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP
);

-- A metric that an operator has watched. One row each, updated in place; a deleted monitor keeps its row until its alert is over.
CREATE TABLE metric_monitor (
    tenant VARCHAR NOT NULL, -- whose spans and results are watched
    monitor_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    document VARCHAR NOT NULL, -- JSON: what it watches, and when it alerts
    "version" INTEGER NOT NULL, -- counts the changes of the document
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP,
    "state" VARCHAR, -- JSON: what the last look found and what the next one needs; NULL before the first
    alert_id VARCHAR, -- of the alert that it opened and that is not over
    looked_at TIMESTAMP
);

-- Alerts that nobody is told of for a while. Rows are deleted by hand, or left behind.
CREATE TABLE alert_mute (
    tenant VARCHAR NOT NULL,
    mute_id VARCHAR NOT NULL,
    project VARCHAR, -- NULL: all
    "rule" VARCHAR, -- a name or an id, of a monitor of a metric too; NULL: all
    until TIMESTAMP NOT NULL,
    muted_by VARCHAR,
    created_at TIMESTAMP NOT NULL
);

-- What people, applications and their users say of what was recorded. Rows are never changed: of the same author, name and target the one with the highest number counts.
CREATE TABLE annotation (
    number BIGINT NOT NULL, -- in the order in which they were stored
    tenant VARCHAR NOT NULL,
    project VARCHAR, -- NULL where nothing of the trace was stored yet
    target VARCHAR NOT NULL, -- trace, span, session or run_item
    trace_id VARCHAR, -- of a session its latest trace, with which the row leaves; NULL: an item of a run
    span_id VARCHAR,
    session_id VARCHAR,
    run_id VARCHAR,
    item_number BIGINT,
    "name" VARCHAR NOT NULL, -- which question it answers
    label VARCHAR,
    score DOUBLE,
    note VARCHAR,
    expected VARCHAR, -- JSON: what would have been right
    source VARCHAR NOT NULL, -- person, adjudicator, application or user
    author VARCHAR NOT NULL, -- the name of the key, or of an application's user
    withdrawn BOOLEAN NOT NULL, -- with this row the author takes back what was said before
    created_at TIMESTAMP NOT NULL
);

-- Queues of what people are to judge. One row each, updated in place.
CREATE TABLE review_queue (
    tenant VARCHAR NOT NULL,
    queue_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    question VARCHAR NOT NULL, -- the name of the annotations that answer it
    instructions VARCHAR NOT NULL, -- what reviewers are asked, in words
    labels VARCHAR[] NOT NULL, -- the answers that there are
    reviewers INTEGER NOT NULL, -- how many people look at each entry
    blind BOOLEAN NOT NULL, -- until somebody has voted he is told nothing of what others said
    feeds VARCHAR NOT NULL, -- JSON: which results of rules become entries
    "version" INTEGER NOT NULL,
    created_by VARCHAR,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    answer VARCHAR DEFAULT 'label', -- label, score or text
    low DOUBLE, -- of a score
    high DOUBLE
);

-- What is to be judged. The id follows from queue and target, so nothing is in a queue twice; to the eye it is random.
CREATE TABLE review_entry (
    tenant VARCHAR NOT NULL,
    queue_id VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    number BIGINT NOT NULL, -- in the order in which they were added
    target VARCHAR NOT NULL, -- trace, span or run_item
    project VARCHAR,
    trace_id VARCHAR, -- NULL: an item of a run
    span_id VARCHAR,
    run_id VARCHAR,
    item_number BIGINT,
    reason VARCHAR NOT NULL, -- hand, run, failing, disagreement, uncertainty or random
    rule_id VARCHAR, -- whose result it was
    probability DOUBLE, -- with which it was drawn; NULL: nobody knows
    added_by VARCHAR,
    added_at TIMESTAMP NOT NULL
);

-- What a reviewer did with an entry last, one row for both. That somebody voted is told by the annotation.
CREATE TABLE review_turn (
    tenant VARCHAR NOT NULL,
    queue_id VARCHAR NOT NULL,
    entry_id VARCHAR NOT NULL,
    trace_id VARCHAR, -- that of the entry, with which the row leaves
    author VARCHAR NOT NULL,
    "state" VARCHAR NOT NULL, -- leased, skipped or voted
    leased_until TIMESTAMP, -- of a lease
    number BIGINT NOT NULL -- in the order in which it was done
);

-- One row for each score and rule, in the order of all results: `number` is of the numbers of evaluations.
CREATE TABLE counted_score (
    number BIGINT NOT NULL,
    annotation BIGINT NOT NULL, -- the number of what was said
    tenant VARCHAR NOT NULL,
    project VARCHAR,
    revision INTEGER NOT NULL, -- of the rule, that was in force then
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR, -- NULL: the trace
    "name" VARCHAR NOT NULL, -- which question it answers
    source VARCHAR NOT NULL,
    author VARCHAR NOT NULL,
    release VARCHAR, -- the value of the rule's `compareBy`
    passed BOOLEAN,
    score DOUBLE,
    note VARCHAR,
    created_at TIMESTAMP NOT NULL,
    service VARCHAR, -- of what was judged; NULL: unknown
    started_at TIMESTAMP -- of what was judged; NULL: unknown
);

-- One row: up to which annotation all were looked at for the last time; -1 before the first look, for which all that was
-- said is history.
CREATE TABLE score_state (
    number BIGINT NOT NULL,
    batch BIGINT DEFAULT -1 -- commits up to this one were looked at for scores that are events; -1 before the first look
);
INSERT INTO score_state VALUES (-1, -1);

-- Traces of sessions that have settled since their session was decided about last.
CREATE TABLE session_open (
    tenant VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    last_at TIMESTAMP NOT NULL, -- when the last of it was seen
    last_seq BIGINT NOT NULL,
    was_settled BOOLEAN NOT NULL, -- it had settled before
    rested_us BIGINT NOT NULL -- for how long the session had been quiet when it was decided about; 0: it was not
);

-- Lists of traces that somebody named, so that others open them: filters, order and columns.
CREATE TABLE saved_view (
    tenant VARCHAR NOT NULL,
    view_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    project VARCHAR, -- that its filters name; NULL: none
    query VARCHAR NOT NULL, -- of the address of the list
    "version" INTEGER NOT NULL, -- counts the changes
    created_by VARCHAR,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);
