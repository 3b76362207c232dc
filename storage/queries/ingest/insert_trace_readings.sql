-- Store what traces mean, with how many spans they have and the earliest edition that read one of these.
INSERT INTO trace_reading BY NAME
SELECT
    i.*,
    ('0x' || i.trace_id[17:])::UBIGINT AS trace_key,
    c.count_all AS span_count,
    c.edition_min AS edition
FROM incoming_traces AS i
JOIN incoming_counts AS c ON c.tenant = i.tenant AND c.trace_id = i.trace_id;
