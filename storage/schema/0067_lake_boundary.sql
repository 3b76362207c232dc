-- What has moved to the lake, for each name that this directory had there (a restored one takes a new name): of traces
-- that have no part here from a commit before `first_batch`, the lake's rows of these commits are the only ones.
CREATE TABLE lake_boundary (
    directory_id VARCHAR NOT NULL,
    day DATE NOT NULL, -- these commits came before it, in UTC
    first_batch BIGINT NOT NULL,
    first_seq BIGINT NOT NULL -- their spans have lower numbers; decisions and results go by these
);
