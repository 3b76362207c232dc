-- One row: the last time that the clock of the machine was known to be right, and how long the machine was up then. Of
-- two times of one boot the difference is known whatever the clock was set to meanwhile. NULL: nothing was trusted yet.
CREATE TABLE trusted_time (
    trusted_at TIMESTAMP,
    boot_id VARCHAR,
    uptime_us BIGINT
);
INSERT INTO trusted_time VALUES (NULL, NULL, NULL);
