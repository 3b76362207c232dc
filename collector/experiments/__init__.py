"""What came of a run as a file that somebody can take along."""
