"""Trace models that are networks of torch."""
