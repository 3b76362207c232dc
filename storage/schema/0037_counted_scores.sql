-- Scores by people and applications that monitors count, because a rule says so. Times are UTC by our own clock.

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
    created_at TIMESTAMP NOT NULL
);

-- One row: up to which annotation all were looked at for the last time; -1 before the first look, for which all that was
-- said is history.
CREATE TABLE score_state (
    number BIGINT NOT NULL
);

INSERT INTO score_state VALUES (-1);
