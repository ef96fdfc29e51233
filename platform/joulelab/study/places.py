"""What a study is called, and where its clock guard may listen."""

import re
from datetime import datetime
from pathlib import Path

from joulelab.core.device import DeviceIdentity
from joulelab.errors import ConfigError
from joulelab.guard.settings import GuardSettings
from joulelab.tracking.durable import check_folder


def study_name(kind: str, gpu: DeviceIdentity, now: datetime) -> str:
    """Return the name of a study, made of its kind, its GPU and the time."""
    product = gpu.name.removeprefix("NVIDIA ").replace(" ", "-").lower()
    return f"{plain(kind)}-{product}-{now:%Y%m%d-%H%M%S}"


def plain(text: str) -> str:
    """Return ``text`` as a part of a file's name: of a program, without folders and colons."""
    return re.sub(r"[^\w.=-]+", "-", text).strip("-.")


def check_guard_socket(path: Path | None) -> None:
    """Refuse, before anything is measured, a socket at which no clock guard can listen.

    Args:
        path: Where it is to listen on this node; ``None`` for the node's own.

    Raises:
        ConfigError: If it is not absolute or too long, is another kind of file, or its folder is
            absent or cannot be written to.
    """
    if path is None or GuardSettings(socket_path=path).socket_path.is_socket():
        return
    if path.exists():
        raise ConfigError(f"A clock guard listens at a Unix socket, but {path} is none.")
    if not path.parent.parent.is_dir():
        raise ConfigError(
            f"A clock guard makes the folder of its socket, but {path.parent.parent} is no folder."
        )
    if path.parent.exists():
        check_folder(path.parent)
