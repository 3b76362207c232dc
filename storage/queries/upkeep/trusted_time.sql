-- Return when the clock was last known to be right, in microseconds, with the boot and the uptime of the machine then.
SELECT epoch_us(trusted_at), boot_id, uptime_us
FROM trusted_time;
