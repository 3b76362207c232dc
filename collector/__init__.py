"""The running process: command line, settings, lifecycle, the doors for traces, and the HTTP API."""
