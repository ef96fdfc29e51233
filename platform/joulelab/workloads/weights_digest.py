"""What a network's weights are, in a few digits."""

from hashlib import file_digest, sha256
from pathlib import Path

_WHOLE_B = 1 << 24


def weights_digest(weights: str | None) -> str:
    """Return what names the weights: a digest of a folder's files, else ``weights`` itself.

    Of files beyond 16 MB it is name, size and time of change that count, since reading all of a
    checkpoint takes longer than many an evaluation of it.
    """
    if weights is None:
        return "random"
    path = Path(weights)
    if not path.exists():
        return weights
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    said = [(str(file.relative_to(path)), _file_digest(file)) for file in files]
    return sha256(repr(said).encode()).hexdigest()


def _file_digest(file: Path) -> str:
    status = file.stat()
    if status.st_size > _WHOLE_B:
        return f"{status.st_size} {status.st_mtime_ns}"
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
