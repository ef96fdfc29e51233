"""What a search believes of configurations that it has not measured."""
