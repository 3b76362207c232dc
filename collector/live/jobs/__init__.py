"""The queue of judgements and the workers that empty it."""
