-- Move the last signs of runs under way along with the clock of the machine, which was set.
UPDATE run
SET reported_at = reported_at + to_microseconds($by_us::BIGINT)
WHERE "state" = 'RUNNING' AND reported_at <= make_timestamp($before_us::BIGINT);
