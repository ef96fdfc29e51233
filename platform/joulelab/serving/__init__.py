"""Servers of language models under load: energy per request and token, and latencies."""
