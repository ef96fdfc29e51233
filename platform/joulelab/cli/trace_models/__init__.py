"""The subcommands of ``joulelab models trace`` that train, score and ask models of power traces."""
