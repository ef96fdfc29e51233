"""What a PyTorch program does: its operators, what they compute, what they read and write."""
