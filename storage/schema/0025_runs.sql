-- Experiments, their runs, what came of each item, and the scores. Times are UTC by our own clock.
CREATE TABLE experiment (
    tenant VARCHAR NOT NULL,
    experiment_id VARCHAR NOT NULL,
    project VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL
);

-- One row each, updated in place.
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
    completed_at TIMESTAMP
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
