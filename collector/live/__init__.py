"""Online evaluation: rules in force, matching what is committed, jobs, judges and what they may cost."""
