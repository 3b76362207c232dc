"""What is stored, as the JSON documents of answers."""
