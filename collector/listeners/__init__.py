"""The OTLP listeners: gRPC and HTTP, with one table of answers behind both."""
