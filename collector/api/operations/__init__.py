"""The state of the server over HTTP."""
