-- Return items of the latest runs with this outcome that have no decision: without a vote, or with unsure ones only.
WITH latest AS (
    SELECT run_id, project, experiment_id, experiment, started_at
    FROM run
    WHERE ($tenant::VARCHAR IS NULL OR tenant IN ($tenant, ''))
        AND ($project::VARCHAR IS NULL OR project = $project)
        AND ($experiment_id::VARCHAR IS NULL OR experiment_id = $experiment_id)
        AND ($run_id::VARCHAR IS NULL OR run_id = $run_id)
    ORDER BY started_at DESC, run_id DESC
    LIMIT $runs
),
decided AS (
    SELECT item_number
    FROM annotation
    WHERE target = 'run_item'
        AND name = 'verdict'
        AND source IN ('person', 'adjudicator')
        AND run_id IN (SELECT run_id FROM latest)
    GROUP BY item_number, author
    HAVING NOT arg_max(withdrawn, number) AND lower(coalesce(arg_max(label, number), '')) <> 'unsure'
),
run_item AS MATERIALIZED ( -- of these runs alone
    SELECT *
    FROM run_item AS i
    WHERE i.run_id IN (SELECT run_id FROM latest) AND i.item_number NOT IN (SELECT item_number FROM decided)
),
run_score AS MATERIALIZED (
    SELECT * FROM run_score AS s WHERE s.run_id IN (SELECT run_id FROM latest)
),
outcomes AS ($outcomes)
SELECT r.* EXCLUDE (started_at), o.item_number
FROM outcomes AS o
INNER JOIN latest AS r ON r.run_id = o.run_id
WHERE o.outcome = $outcome
ORDER BY r.started_at DESC, r.run_id DESC, o.item_number
LIMIT $items
OFFSET $skip;
