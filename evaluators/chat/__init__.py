"""Chat models: the protocols, the client, and the parsing of replies."""
