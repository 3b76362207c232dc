-- Shift the ends of reviewers' leases after the machine's clock was set.
UPDATE review_turn SET leased_until = leased_until + to_microseconds($by_us::BIGINT) WHERE leased_until IS NOT NULL;
