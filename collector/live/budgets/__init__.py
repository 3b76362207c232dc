"""What judging may spend."""
