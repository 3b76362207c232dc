"""The follower of the cursor: which spans and traces a rule judges."""
