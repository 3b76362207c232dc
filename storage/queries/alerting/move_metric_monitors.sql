-- Shift the times of the last checks of metric monitors after the machine's clock was set.
UPDATE metric_monitor SET looked_at = looked_at + to_microseconds($by_us::BIGINT) WHERE looked_at IS NOT NULL;
