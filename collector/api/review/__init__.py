"""Annotations, review queues, and calibration of judges over HTTP."""
