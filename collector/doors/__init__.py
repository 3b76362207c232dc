"""The OTLP doors: gRPC and HTTP, with one table of answers behind both."""
