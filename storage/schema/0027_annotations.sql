-- What people, applications and their users say of what was recorded. Times are UTC by our own clock.

-- Rows are never changed: of the same author, name and target the one with the highest number counts.
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
