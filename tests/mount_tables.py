"""What the kernel says of mounts, as a file that psutil reads."""

import os

import psutil

from joulelab.tracking.study_lock import default_store


def mounted(folder, kind, options, proc, monkeypatch):
    """Have the kernel say that ``folder`` is a mount of ``kind``; ``proc`` stands for ``/proc``."""
    folder.mkdir(exist_ok=True)
    (proc / "self").mkdir(parents=True)
    for name in ("stat", str(os.getpid())):
        (proc / name).symlink_to(f"/proc/{name}")
    (proc / "self/mounts").write_text(
        f"disk / ext4 rw 0 0\nserver:/x {folder} {kind} {options} 0 0\n"
    )
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(proc))
    default_store.cache_clear()
    return folder
