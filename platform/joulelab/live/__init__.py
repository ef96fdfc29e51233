"""What the GPUs of a machine are doing now, for whoever looks; nothing here is a measurement."""
