"""What rules leave behind: the cursor, open traces, jobs, results, decisions, spending."""
