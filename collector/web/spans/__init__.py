"""The parts of pages that show a span or a conversation."""
