"""Export of results and the server's own traces to OpenTelemetry endpoints of the operator."""
