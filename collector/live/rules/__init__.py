"""Which rules are in force, and where they come from."""
