-- Insert a running backfill. Its last span number is set when it begins; $again targets count as checked and matched.
INSERT INTO backfill BY NAME
SELECT
    $backfill_id AS backfill_id,
    $revision AS revision,
    make_timestamp_ns($from_ns) AS from_time,
    make_timestamp_ns($to_ns) AS to_time,
    $trace_ids::VARCHAR[] AS trace_ids,
    $occasion AS occasion,
    -1 AS after_seq,
    -1 AS until_seq,
    $again::BIGINT AS looked_at,
    $again::BIGINT AS matched,
    'running' AS "state",
    make_timestamp($now_us) AS created_at,
    make_timestamp($now_us) AS updated_at;
