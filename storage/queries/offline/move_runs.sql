-- Shift the times of the last signs of life of runs after the machine's clock was set.
UPDATE run
SET reported_at = reported_at + to_microseconds($by_us::BIGINT)
WHERE "state" = 'RUNNING' AND reported_at <= make_timestamp($before_us::BIGINT);
