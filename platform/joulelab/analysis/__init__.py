"""What the results say: comparisons, tables, plots, reports."""
