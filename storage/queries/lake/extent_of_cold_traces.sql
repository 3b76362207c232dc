-- Return the commits and the times of some traces in the lake, by their keys as the lake has them.
SELECT min(batch), max(batch), min(start_time), greatest(max(last_start_time), max(end_time))
FROM read_parquet(getvariable('lake')['trace_part'])
WHERE trace_key IN (SELECT unnest(string_split($keys, ',')::BIGINT[]));
