"""Keys, connections, gauges and the status of the server."""
