-- Of how many traces spans came with the last commits after one, how many spans, and of how many the sender's clock
-- agrees with ours to the hour: it had ended them within an hour of their receipt.
SELECT
    count(DISTINCT trace_id),
    count(*),
    count(*) FILTER (WHERE abs(epoch_us(received_at) - epoch_ns(end_time) // 1000) < 3600000000)
FROM span
WHERE batch > greatest($after, $last - $commits);
