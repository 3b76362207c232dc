-- Move the ends of leases of reviewers along with the clock of the machine, which was set.
UPDATE review_turn SET leased_until = leased_until + to_microseconds($by_us::BIGINT) WHERE leased_until IS NOT NULL;
