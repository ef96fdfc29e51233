"""Finding the operating point: what to measure next, when to stop, and how to say the answer."""
