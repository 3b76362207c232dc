-- Return the position of matching, and the commit up to which traces are aggregated.
SELECT (SELECT seq FROM matching_state), (SELECT ((batch + 1) << 20) - 1 FROM trace_state);
