-- Insert an annotation, unless it equals the author's last one on the target. Returns its number, or no row.
INSERT INTO annotation
WITH said AS (
    SELECT
        $tenant AS tenant,
        $project::VARCHAR AS project,
        $target AS target,
        $trace_id::VARCHAR AS trace_id,
        $span_id::VARCHAR AS span_id,
        $session_id::VARCHAR AS session_id,
        $run_id::VARCHAR AS run_id,
        $item_number::BIGINT AS item_number,
        $name AS name,
        $label::VARCHAR AS label,
        $score::DOUBLE AS score,
        $note::VARCHAR AS note,
        $expected::VARCHAR AS expected,
        $source AS source,
        $author AS author,
        $withdrawn AS withdrawn
),
before AS (
    SELECT a.label, a.score, a.note, a.expected, a.withdrawn
    FROM annotation AS a
    WHERE a.tenant = $tenant
        AND a.target = $target
        AND a.name = $name
        AND a.source = $source
        AND a.author = $author
        AND a.session_id IS NOT DISTINCT FROM $session_id
        AND ($session_id IS NOT NULL OR a.trace_id IS NOT DISTINCT FROM $trace_id)
        AND a.span_id IS NOT DISTINCT FROM $span_id
        AND a.run_id IS NOT DISTINCT FROM $run_id
        AND a.item_number IS NOT DISTINCT FROM $item_number
    ORDER BY a.number DESC
    LIMIT 1
)
SELECT (SELECT coalesce(max(number), 0) + 1 FROM annotation), s.*, make_timestamp($now_us)
FROM said AS s
LEFT JOIN before AS b ON true
WHERE CASE WHEN b.withdrawn IS NULL OR b.withdrawn THEN NOT s.withdrawn
    ELSE (s.label, s.score, s.note, s.expected, s.withdrawn)
        IS DISTINCT FROM (b.label, b.score, b.note, b.expected, b.withdrawn) END
RETURNING number;
