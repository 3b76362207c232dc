-- Lists of traces that somebody named, so that others open them: filters, order and columns. Times are UTC by our own clock.
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

-- A backfill of chosen traces has their ids until it ends, and then as many empty texts; NULL: all traces of its time.
ALTER TABLE backfill ADD COLUMN trace_ids VARCHAR[];
