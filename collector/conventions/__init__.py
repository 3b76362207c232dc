"""What a span and a trace mean, whatever instrumented the application: the only place that spells attribute names."""
