-- Insert a number of an edition of the conventions.
INSERT INTO edition
VALUES ($edition, $digest, now()::TIMESTAMP);
