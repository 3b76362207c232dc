-- Record the progress of a deletion.
UPDATE deletion SET
    after_batch = $after_batch,
    wrapped = $wrapped,
    traces = traces + $traces,
    spans = spans + $spans
WHERE deletion_id = $deletion_id;
