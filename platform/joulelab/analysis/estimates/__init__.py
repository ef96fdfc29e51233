"""Estimates for people and other programs: words, tables, plots, pages and files."""
