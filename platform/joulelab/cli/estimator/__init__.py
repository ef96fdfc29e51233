"""The commands that predict; ``cli/main.py`` lists them."""
