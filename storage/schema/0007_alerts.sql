-- Alerts, the events of their lives, who is told of them, and each telling. Times are UTC by our own clock.

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
    recovered_at TIMESTAMP
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
    deleted_at TIMESTAMP
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
