-- Decide by a rule on all targets that started within a window: the clause that each fails, whether it is sampled, and
-- whether another rule's result calls for it. The final query is appended.
WITH looked_at AS (
    SELECT
        tenant,
        trace_id,
        span_id,
        parent_span_id,
        name,
        service_name,
        start_time,
        end_time,
        received_at,
        seq,
        project,
        session_id,
        $failing AS clause
    FROM $source
    WHERE start_time >= now()::TIMESTAMP - to_seconds($window_s::DOUBLE)
        AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
),

each_target AS (
$targets
),

target AS (SELECT *, $is_sampled AS sampled, $is_called_for AS flagged FROM each_target AS t)

$question
