-- Count the items of a run that an evaluation has not scored.
SELECT count(*)
FROM run_item AS i
ANTI JOIN (
    SELECT item_number FROM run_score WHERE run_id = $run_id AND evaluation_id = $evaluation_id
) AS said USING (item_number)
WHERE i.run_id = $run_id;
