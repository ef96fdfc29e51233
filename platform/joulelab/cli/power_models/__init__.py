"""The subcommands of ``joulelab models`` that train, score and ask power models."""
