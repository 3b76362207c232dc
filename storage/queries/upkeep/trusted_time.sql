-- When the clock was last known to be right, in microseconds, on which boot, and how long the machine was up then.
SELECT epoch_us(trusted_at), boot_id, uptime_us
FROM trusted_time;
