"""Conversion of records to the JSON documents of responses."""
