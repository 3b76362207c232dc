"""Keys, connections, jobs, spending, audit and the status of the server."""
