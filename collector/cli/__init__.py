"""The command line: parse, request, print."""
