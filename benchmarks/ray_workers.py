"""The worker processes of the Ray cluster that this process started."""

import psutil


def worker_titles() -> dict[int, str]:
    """Return Ray's workers below this process and what they call themselves."""
    titles = {}
    for process in psutil.Process().children(recursive=True):
        try:
            title = (process.cmdline() or [""])[0]
        except psutil.Error:  # it has gone meanwhile
            continue
        if title.startswith("ray::") and not title.endswith("Agent"):
            titles[process.pid] = title
    return titles
