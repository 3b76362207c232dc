"""What leaves for OpenTelemetry endpoints of the operator's."""
