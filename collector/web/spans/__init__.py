"""What pages show of a single span and of a conversation."""
