-- What monitors of results remember. Times are UTC, those of the results.

-- A stream of results that are compared with each other.
CREATE TABLE monitor_state (
    tenant VARCHAR NOT NULL,
    project VARCHAR, -- NULL: spans that name none
    rule_id VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL, -- of the evaluator
    "state" VARCHAR NOT NULL, -- JSON: follows from the results alone
    since TIMESTAMP NOT NULL, -- of the first result that is compared with
    updated TIMESTAMP NOT NULL -- of the last one
);

-- One row: results up to `number` are in the states.
CREATE TABLE monitor_cursor (
    number BIGINT NOT NULL,
    told BIGINT NOT NULL, -- what happened up to this result was told before the states were built again
    edition INTEGER NOT NULL -- of what the states look like
);

INSERT INTO monitor_cursor VALUES (0, 0, 0);
