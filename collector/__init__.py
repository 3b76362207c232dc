"""The running process: command line, settings, lifecycle, the listeners for traces, and the HTTP API."""
