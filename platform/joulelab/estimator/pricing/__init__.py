"""From operators to seconds, joules and bytes on one processor."""
