-- What has moved to the lake, for each name that this directory had there (a restored one takes a new name): of traces
-- that have no part here from a commit before `first_batch`, the lake's rows of these commits are the only ones.
CREATE TABLE lake_boundary (
    directory_id VARCHAR NOT NULL,
    day DATE NOT NULL, -- these commits came before it, in UTC
    first_batch BIGINT NOT NULL,
    first_seq BIGINT NOT NULL -- their spans have lower numbers; decisions and results go by these
);

-- Traces whose rows have to leave the lake, because they were deleted or have expired. Readers leave these rows out.
CREATE TABLE lake_removal (
    tenant VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    first_batch BIGINT NOT NULL, -- of its parts
    last_batch BIGINT NOT NULL,
    last_write BIGINT NOT NULL, -- later rows are of a trace that came again
    last_result BIGINT NOT NULL -- the same for results, by their number
);
