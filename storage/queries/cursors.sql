-- How far spans are read, and how far they are matched.
SELECT (SELECT seq FROM reading_state), (SELECT seq FROM matching_state);
