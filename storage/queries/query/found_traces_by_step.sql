-- Summarize the matching traces by time step from $from_ns, counted from 0.
SELECT
    ((start_ns - $from_ns) // $step_ns)::BIGINT AS step,
    count(*) AS traces,
    count(*) FILTER (WHERE is_failed) AS failed,
    approx_quantile(duration_ms, [0.5, 0.95]) AS latencies_ms
FROM found_traces
GROUP BY step
ORDER BY step;
