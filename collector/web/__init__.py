"""Pages for people, served by the same process from the same questions as the API."""
