-- Forget traces that the lake has lost.
DELETE FROM lake_removal
WHERE last_write <= $last;
