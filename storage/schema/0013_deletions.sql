-- What somebody asked to be deleted, and how far that is. Times are UTC by our own clock.
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
    finished_at TIMESTAMP
);

-- Row groups that hold deleted rows are found by these rows themselves, and not by the blocks that they lie in.
INSERT INTO deletion
SELECT uuid()::VARCHAR, '', NULL, NULL, NULL, NULL, NULL, [], 'erasing', 0, 0, 0, 0, now()::TIMESTAMP, NULL, now()::TIMESTAMP, NULL
WHERE EXISTS (SELECT 1 FROM erased_block);

DROP TABLE erased_block;
