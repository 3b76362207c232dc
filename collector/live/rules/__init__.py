"""Active rules, and the sources they come from."""
