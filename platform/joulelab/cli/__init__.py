"""The `joulelab` command line."""
