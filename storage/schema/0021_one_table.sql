-- Once everything was moved: the wide tables take the places of the narrow ones, and of what was joined to them.
DROP TABLE span;
DROP TABLE reading;
DROP TABLE log_record;
DROP TABLE resource;
DROP TABLE "scope";
ALTER TABLE wide_span RENAME TO span;
ALTER TABLE wide_log_record RENAME TO log_record;

-- The editions of the conventions that read rows of this file: the digest of the code and of the operator's own keys.
CREATE TABLE edition (
    edition INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    last_used TIMESTAMP NOT NULL
);

-- How many spans a trace had when it was added up: where it has more by its parts, it is to be added up again.
ALTER TABLE trace_reading ADD COLUMN span_count BIGINT;
ALTER TABLE trace_reading ADD COLUMN trace_key UBIGINT;
ALTER TABLE trace_reading ADD COLUMN edition INTEGER; -- the earliest that read one of them
UPDATE trace_reading SET trace_key = ('0x' || trace_id[17:])::UBIGINT;

-- One row: the traces of the commits up to `batch` are added up.
CREATE TABLE trace_state (
    batch BIGINT NOT NULL
);
INSERT INTO trace_state
SELECT least(i.batch, greatest((r.seq >> 20) - 1, 0))
FROM ingest_state AS i, reading_state AS r;
INSERT INTO trace_reading (tenant, trace_id, start_time, tool_call_count, trace_key)
SELECT p.tenant, p.trace_id, min(p.start_time), 0, any_value(p.trace_key)
FROM trace_part AS p
SEMI JOIN trace_due AS d ON d.tenant = p.tenant AND d.trace_id = p.trace_id
ANTI JOIN trace_reading AS r ON r.tenant = p.tenant AND r.trace_id = p.trace_id
GROUP BY p.tenant, p.trace_id;

DROP TABLE trace_due;
DROP TABLE reading_state;
