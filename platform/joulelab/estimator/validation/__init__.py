"""Estimates beside what was measured."""
