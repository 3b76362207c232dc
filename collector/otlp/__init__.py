"""OTLP bytes to columns and back; pure, no clock and no I/O."""
