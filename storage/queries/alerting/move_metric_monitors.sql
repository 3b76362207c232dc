-- Move the last looks of monitors at metrics along with the clock of the machine, which was set.
UPDATE metric_monitor SET looked_at = looked_at + to_microseconds($by_us::BIGINT) WHERE looked_at IS NOT NULL;
