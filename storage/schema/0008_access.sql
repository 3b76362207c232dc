-- Who may ask for what, and who did. Times are UTC by our own clock.
CREATE TABLE api_key (
    key_id VARCHAR NOT NULL,
    tenant VARCHAR NOT NULL, -- '' is a key of no tenant, which sees all of them
    "name" VARCHAR NOT NULL,
    "role" VARCHAR NOT NULL, -- VIEWER, EDITOR, ADMIN or INGEST
    digest BLOB NOT NULL, -- SHA-256 of the key, which itself stands nowhere
    hint VARCHAR NOT NULL, -- how the key begins, for the eye
    enabled BOOLEAN NOT NULL,
    expires_at TIMESTAMP,
    last_used_at TIMESTAMP, -- within some minutes
    created_at TIMESTAMP NOT NULL,
    created_by VARCHAR -- the key that made it; NULL: nobody was asked for one
);

-- Every write and every refused request. What repeats itself within a second is one row with a count.
CREATE TABLE audit (
    audit_id BIGINT NOT NULL, -- in the order of storing
    "at" TIMESTAMP NOT NULL, -- the first of them
    key_id VARCHAR, -- NULL: no key, or a wrong one
    key_name VARCHAR,
    tenant VARCHAR NOT NULL,
    address VARCHAR NOT NULL,
    "method" VARCHAR NOT NULL,
    "path" VARCHAR NOT NULL,
    status INTEGER NOT NULL,
    detail VARCHAR, -- why it was refused
    request_id VARCHAR, -- of the first
    times BIGINT NOT NULL
);
