"""Rules: the list, the form, the history, backfills."""
