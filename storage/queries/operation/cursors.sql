-- How far spans are matched, and up to which commit traces are added up.
SELECT (SELECT seq FROM matching_state), (SELECT ((batch + 1) << 20) - 1 FROM trace_state);
