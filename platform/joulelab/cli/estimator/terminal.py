"""Where the commands of the estimator print."""

from rich.console import Console


def terminal() -> Console:
    """Return the standard output, 100 columns wide where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console
