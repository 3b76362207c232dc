"""The playground, on which people call models."""
