-- Mark the scores that items have under this name as superseded by new ones of another evaluation.
INSERT INTO superseded_score BY NAME
SELECT s.run_id, s.score_number
FROM run_score AS s
INNER JOIN new_run_scores AS n ON n.item_number = s.item_number AND n.name = s.name
WHERE s.run_id = $run_id
    AND s.evaluation_id IS DISTINCT FROM $evaluation_id
    AND s.score_number NOT IN (SELECT score_number FROM superseded_score WHERE run_id = $run_id);
