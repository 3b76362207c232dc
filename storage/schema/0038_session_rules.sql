-- Rules about sessions: what was judged of them, and which have not come to rest.
ALTER TABLE job ADD COLUMN session_id VARCHAR; -- NULL: it is about the trace, or the span; else `trace_id` is the session's latest
ALTER TABLE evaluation ADD COLUMN session_id VARCHAR;

-- Traces of sessions that have settled since their session was decided about last. Times are UTC by our own clock.
CREATE TABLE session_open (
    tenant VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    last_at TIMESTAMP NOT NULL, -- when the last of it was seen
    last_seq BIGINT NOT NULL,
    was_settled BOOLEAN NOT NULL, -- it had settled before
    rested_us BIGINT NOT NULL -- for how long the session had been quiet when it was decided about; 0: it was not
);
