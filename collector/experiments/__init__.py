"""Runs that are stored: compared, watched for regressions, and exported as files."""
