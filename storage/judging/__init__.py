"""State of rules: the cursor, open traces, jobs, results, decisions, spending."""
