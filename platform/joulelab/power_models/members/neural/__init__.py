"""Members that are networks of torch, which is imported nowhere else in this package."""
