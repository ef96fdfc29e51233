"""Searches: Ray Tune over the pool of pinned GPU actors."""
