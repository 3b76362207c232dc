-- Count the traces and spans of the last commits after a number, and the spans whose sender's clock agrees with the
-- server's to the hour: they ended within an hour of their receipt.
SELECT
    count(DISTINCT trace_id),
    count(*),
    count(*) FILTER (WHERE abs(epoch_us(received_at) - epoch_ns(end_time) // 1000) < 3600000000)
FROM span
WHERE batch > greatest($after, $last - $commits);
