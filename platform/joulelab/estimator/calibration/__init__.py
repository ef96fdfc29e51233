"""From micro-benchmarks to a processor's free scalars."""
