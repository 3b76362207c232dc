-- Return the number of the last result, and the positions of monitors and of result events.
SELECT last_number, (SELECT number FROM monitor_cursor), (SELECT number FROM results_out) FROM result_state;
