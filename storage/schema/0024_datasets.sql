-- Datasets: their versions, the items that versions are made of, and which version has which. Times are UTC by our own
-- clock. A dataset has one row, updated in place; one that was deleted keeps it, because runs name it.
CREATE TABLE dataset (
    tenant VARCHAR NOT NULL,
    dataset_id VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    tags VARCHAR[] NOT NULL,
    input_schema VARCHAR, -- a JSON Schema
    expected_schema VARCHAR, -- likewise
    "version" INTEGER NOT NULL, -- counts the changes of this row
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    deleted_at TIMESTAMP
);

-- Rows are never changed.
CREATE TABLE dataset_version (
    tenant VARCHAR NOT NULL,
    dataset_id VARCHAR NOT NULL,
    "version" INTEGER NOT NULL, -- from 1, without gaps
    version_key BIGINT NOT NULL, -- tells it from all versions of all datasets
    description VARCHAR NOT NULL,
    item_count BIGINT NOT NULL,
    added BIGINT NOT NULL, -- items that the version before it does not have
    removed BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    created_by VARCHAR, -- the name of the key
    created_at TIMESTAMP NOT NULL
);

-- What an item says. Rows are never changed, and shared by all versions in which the item says the same.
CREATE TABLE dataset_item (
    tenant VARCHAR NOT NULL,
    dataset_id VARCHAR NOT NULL,
    item_key BIGINT NOT NULL, -- tells it from all others
    item_id VARCHAR NOT NULL, -- the same in every version
    digest VARCHAR NOT NULL, -- of what it says
    inputs VARCHAR NOT NULL, -- JSON, and so are the next two
    expected_outputs VARCHAR NOT NULL,
    metadata VARCHAR NOT NULL,
    source VARCHAR, -- JSON: what it was promoted from
    created_at TIMESTAMP NOT NULL
);

-- The items of each version, in their order.
CREATE TABLE dataset_member (
    version_key BIGINT NOT NULL,
    ordinal INTEGER NOT NULL, -- from 0, without gaps
    item_key BIGINT NOT NULL
);
