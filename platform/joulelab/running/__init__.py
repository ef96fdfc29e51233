"""Run a program for its user, and measure it."""
