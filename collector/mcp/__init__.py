"""The server's answers for models: the Model Context Protocol over the HTTP API, within the rights of a key."""
