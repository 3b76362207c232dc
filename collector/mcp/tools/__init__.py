"""What a model may ask for, by what it is about."""
