-- What keeps traces, what of evaluations outlives them, and what is still to be rubbed out on the disk.
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
    cost_usd DOUBLE NOT NULL
);

-- Blocks of the file that held a trace which was deleted on request, until nothing uses them any more.
CREATE TABLE erased_block (
    block_id BIGINT NOT NULL
);
