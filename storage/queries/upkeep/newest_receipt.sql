-- When the span was received that was received last, in microseconds; NULL: none is stored.
SELECT epoch_us(max(received_at))
FROM span;
