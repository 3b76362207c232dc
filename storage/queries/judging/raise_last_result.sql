-- Advance the number of the last result by the numbers used.
UPDATE result_state SET last_number = last_number + $results;
