"""Where results go: an append-only store first, MLflow second."""
