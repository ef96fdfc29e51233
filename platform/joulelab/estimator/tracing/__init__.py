"""From a PyTorch program to its operators: what they compute, what they read and write."""
