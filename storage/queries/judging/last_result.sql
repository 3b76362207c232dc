-- Return the number of the last result.
SELECT last_number FROM result_state;
