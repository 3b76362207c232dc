-- Add to the numbers of traces and spans that have moved under the name of this directory.
UPDATE lake_boundary
SET traces = traces + $traces, spans = spans + $spans
WHERE directory_id IN (SELECT directory_id FROM lake_position);
