-- Queues of what people are to judge, and who looks at what. Times are UTC by our own clock.

-- One row each, updated in place.
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
    updated_at TIMESTAMP NOT NULL
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
