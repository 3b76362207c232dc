-- How far each table is published in the lake, under the name that this directory has there: rows up to `published` are,
-- and those up to one of `attempted` may be. A copy or an older state of the directory is recognized by them.
CREATE TABLE lake_position (
    table_name VARCHAR NOT NULL,
    directory_id VARCHAR NOT NULL, -- the same in all rows
    published BIGINT NOT NULL, -- 0: none
    attempted BIGINT[] NOT NULL
);
