"""Attributions as tables, plots and pages."""
