-- Return when the last span was received, in microseconds; NULL if none is stored.
SELECT epoch_us(max(received_at))
FROM span;
