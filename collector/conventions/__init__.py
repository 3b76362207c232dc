"""Meaning of spans and traces, whatever instrumented the application: the attribute names that are read stand here."""
