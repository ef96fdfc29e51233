"""A traced program as a graph: values, fused groups of kernels, and what could run at once."""
