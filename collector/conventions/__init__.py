"""Meaning of spans and traces, whatever instrumented the application: the only place that spells attribute names."""
