-- Take as many numbers for results as were used.
UPDATE result_state SET last_number = last_number + $results;
