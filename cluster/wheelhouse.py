#!/usr/bin/env python3
"""Bring packages to a node without a network, in pieces of a given size and with their checksums.

On the node, with the Python that is to have them::

    python3 cluster/wheelhouse.py describe > node.json

On a machine with a network, the same version of Python, and the same kind of processor::

    cluster/wheelhouse.py pack OUT '.[all]' --node node.json -c constraints.txt --build rouge-score

On the node, to which OUT was carried::

    python3 OUT/wheelhouse.py install OUT

It needs Python and its pip alone. `sha256sum -c SHA256SUMS` checks the pieces as well.
"""

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import file_digest, sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import IO, Any

MIB = 2**20
SUMS = "SHA256SUMS"
REQUIREMENTS = "requirements.txt"
PROJECTS = "projects.txt"
PIECE = re.compile(r"wheels-\d{4}\.tar\.part")
FIRST_GLIBC = 17
"""Minor version of manylinux_2_17, which is manylinux2014; pip takes older ones by that name."""
LEAST_PIECE_B = 1024
MOST_PIECES = 10_000


class WheelhouseError(Exception):
    """Says what was required, what was given, and what to do."""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 1 if pieces are missing or damaged, 2 for all else."""
    options = _parser().parse_args(words)
    try:
        return int(options.run(options))
    except (WheelhouseError, OSError) as error:
        _say(f"wheelhouse: {error}", sys.stderr)
        return 2


def describe(_: argparse.Namespace) -> int:
    """Print what this Python is and has."""
    _say(json.dumps(this_node(), indent=1))
    return 0


def pack(options: argparse.Namespace) -> int:
    """Collect wheels, leave out what the node has, and write the pieces."""
    node = _read_node(options.node) if options.node else this_node() | {"has": {}}
    piece_b = int(options.piece_mib * MIB)
    if piece_b < LEAST_PIECE_B:
        raise WheelhouseError(f"--piece-mib must be 0.001 or more, got {options.piece_mib:g}.")
    out: Path = options.out
    if out.exists() and any(out.iterdir()):
        raise WheelhouseError(f"{out} must be empty or absent, but is not; give another folder.")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as made:
        folder = Path(made)
        projects = _build(options, folder)
        if options.wheels is None:
            _download(options, node, projects, folder)
        else:
            for wheel in options.wheels.glob("*.whl"):
                shutil.copy(wheel, folder)
        _drop_what_is_there(folder, node["has"], set(projects.values()))
        _write_lines(folder / PROJECTS, projects.values())
        _write_lines(folder / REQUIREMENTS, (_named(each, projects) for each in options.wanted))
        count = len(list(folder.glob("*.whl")))
        sums = _write_pieces(out, sorted(folder.iterdir()), piece_b)
    listed = (f"{digest}  {name}" for name, digest in sums.items())
    _write_lines(out / SUMS, [f"# {len(sums)} pieces", *listed])
    shutil.copy(__file__, out / "wheelhouse.py")
    _say(f"{out}: {count} wheels in {len(sums)} pieces.")
    return 0


def check(options: argparse.Namespace) -> int:
    """Say which pieces are missing or damaged."""
    wrong = wrong_pieces(options.folder)
    for name, what in wrong.items():
        _say(f"{name} {what}", sys.stderr)
    if wrong:
        _say(f"Bring these {len(wrong)} again; the other pieces are whole.", sys.stderr)
    return 1 if wrong else 0


def install(options: argparse.Namespace) -> int:
    """Install what the pieces hold, and look nowhere else."""
    if check(options):
        return 1
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        _unpack(options.folder, Path(made))
        offline = ("install", "--no-index", "--find-links", made)
        _pip(*offline, "--requirement", str(Path(made, REQUIREMENTS)))
        projects = Path(made, PROJECTS).read_text().split()
        if projects:  # of the version that is there already, but perhaps other code
            _pip(*offline, "--no-deps", "--force-reinstall", *(f"{made}/{p}" for p in projects))
    return 0


def this_node() -> dict[str, Any]:
    """Return what wheels must fit (Python, processor, glibc) and the packages that are there."""
    libc, release = platform.libc_ver()
    if libc != "glibc":
        raise WheelhouseError(f"Wheels are made for glibc, but this Python runs on {libc!r}.")
    return {
        "python": platform.python_version().rpartition(".")[0],
        "machine": platform.machine(),
        "glibc": int(release.split(".")[1]),
        "has": {_plain(each.name): each.version for each in distributions()},
    }


def _read_node(path: Path) -> dict[str, Any]:
    try:
        node: dict[str, Any] = json.loads(path.read_text())
        if node.keys() >= {"python", "machine", "glibc", "has"}:
            return node
    except (ValueError, AttributeError):
        pass
    raise WheelhouseError(f"--node must be a file that `describe` printed, which {path} is not.")


def wrong_pieces(folder: Path) -> dict[str, str]:
    """Return what is wrong with pieces, by their names; empty if nothing is.

    Raises:
        WheelhouseError: If the list of pieces is not whole itself.
    """
    head, *lines = (folder / SUMS).read_text().splitlines() or [""]
    listed = [line.partition("  ")[::2] for line in lines]
    if head != f"# {len(lines)} pieces" or not all(PIECE.fullmatch(name) for _, name in listed):
        raise WheelhouseError(
            f"{folder / SUMS} must list all pieces, but is damaged; bring it again."
        )
    found = {name: _what_is_wrong(folder / name, digest) for digest, name in listed}
    return {name: what for name, what in found.items() if what}


def _what_is_wrong(path: Path, digest: str) -> str:
    if not path.is_file():
        return "is missing."
    with path.open("rb") as file:
        return "" if file_digest(file, "sha256").hexdigest() == digest else "is damaged."


def _build(options: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Make wheels of projects in folders, and of what an index has as sources alone.

    Returns:
        The name of each project's wheel, by the folder that was asked for.
    """
    projects = {}
    for path in (_parts(word)[0] for word in options.wanted):
        if Path(path).is_dir():
            _pip("wheel", "--no-deps", "--wheel-dir", str(folder / "own"), path)
            [wheel] = (folder / "own").iterdir()
            projects[path] = wheel.rename(folder / wheel.name).name
            (folder / "own").rmdir()
    if options.build:
        _pip("wheel", "--no-deps", "--wheel-dir", str(folder), *_limits(options), *options.build)
    for wheel in folder.glob("*.whl"):
        if not wheel.name.endswith("-none-any.whl"):
            raise WheelhouseError(f"{wheel.name} is for this machine alone; build it on the node.")
    return projects


def _download(
    options: argparse.Namespace, node: dict[str, Any], projects: dict[str, str], folder: Path
) -> None:
    """Download what the node's Python takes."""
    here = this_node()
    for key in ("python", "machine"):  # pip answers for its own what a package needs where
        if here[key] != node[key]:
            raise WheelhouseError(
                f"What packs must have the node's {key}, {node[key]}, but has {here[key]}; pack "
                "with such a Python, or give wheels with --wheels."
            )
    kinds = ["linux", "manylinux2014"]
    kinds += [f"manylinux_2_{minor}" for minor in range(FIRST_GLIBC, node["glibc"] + 1)]
    wanted = []
    for path, extras in map(_parts, options.wanted):
        wanted.append(f"{folder / projects[path] if path in projects else path}{extras}")
    _pip(
        *("download", "--dest", str(folder), "--find-links", str(folder), *_limits(options)),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", node["python"]),
        *(f"--platform={kind}_{node['machine']}" for kind in kinds),
        *wanted,
    )


def _drop_what_is_there(folder: Path, has: dict[str, str], projects: set[str]) -> None:
    for wheel in folder.glob("*.whl"):
        name, version, *_ = wheel.name.split("-")
        if wheel.name not in projects and has.get(_plain(name)) == version:
            wheel.unlink()
    if not list(folder.glob("*.whl")):
        raise WheelhouseError(
            "There is nothing to pack: the node has it all, or no wheel was found."
        )


def _named(word: str, projects: dict[str, str]) -> str:
    """Return how a requirement is asked for where its wheel is among others."""
    path, extras = _parts(word)
    if path not in projects:
        return word
    name, version, *_ = projects[path].split("-")
    return f"{name}{extras}=={version}"


def _parts(word: str) -> tuple[str, str]:
    """Split off the extras, ``[all]``."""
    found = re.fullmatch(r"(.+?)(\[[\w,.-]+\])?", word)
    return (found[1], found[2] or "") if found else (word, "")


def _limits(options: argparse.Namespace) -> Sequence[str]:
    return ("--constraint", str(options.constraints)) if options.constraints else ()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", *words, "--disable-pip-version-check"]
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise WheelhouseError(f"`pip {words[0]}` ended with {done.returncode}; it says why above.")


class _Pieces:
    """A file for :mod:`tarfile` that goes on in another one whenever ``most_b`` are full."""

    def __init__(self, folder: Path, most_b: int) -> None:
        self.sums: dict[str, str] = {}
        self._folder, self._most_b = folder, most_b
        self._file: IO[bytes] | None = None
        self._free_b = 0

    def write(self, data: bytes) -> int:
        """Write all of ``data``."""
        rest = memoryview(data)
        while rest:
            if self._file is None:
                if len(self.sums) == MOST_PIECES:
                    raise WheelhouseError(
                        "There would be 10,000 pieces; give a larger --piece-mib."
                    )
                path = self._folder / f"wheels-{len(self.sums):04d}.tar.part"
                self._file, self._sum, self._free_b = path.open("wb"), sha256(), self._most_b
            part = rest[: self._free_b]
            self._file.write(part)
            self._sum.update(part)
            self._free_b, rest = self._free_b - len(part), rest[len(part) :]
            if not self._free_b:
                self.close()
        return len(data)

    def close(self) -> None:
        """End the piece that is open."""
        if self._file is not None:
            self._file.close()
            self.sums[Path(self._file.name).name] = self._sum.hexdigest()
            self._file = None


def _write_pieces(out: Path, files: Sequence[Path], most_b: int) -> dict[str, str]:
    pieces = _Pieces(out, most_b)
    with tarfile.open(fileobj=pieces, mode="w|") as tar:  # type: ignore[call-overload]
        for path in files:
            tar.add(path, path.name)
    pieces.close()
    return pieces.sums


class _Joined:
    """The pieces as one file to read."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = iter([path.open("rb") for path in paths])
        self._file = next(self._files)

    def read(self, size_b: int) -> bytes:
        """Return ``size_b`` bytes, or fewer at the very end."""
        data = self._file.read(size_b)
        while len(data) < size_b and (following := next(self._files, None)) is not None:
            self._file.close()
            self._file = following
            data += self._file.read(size_b - len(data))
        return data


def _unpack(pieces: Path, folder: Path) -> None:
    joined = _Joined(sorted(path for path in pieces.iterdir() if PIECE.fullmatch(path.name)))
    with tarfile.open(fileobj=joined, mode="r|") as tar:  # type: ignore[call-overload]
        for member in tar:
            file = tar.extractfile(member)
            if file is None or Path(member.name).name != member.name:
                raise WheelhouseError(f"The pieces hold {member.name!r}, which pack puts nowhere.")
            with (folder / member.name).open("wb") as copy:
                shutil.copyfileobj(file, copy)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def _say(text: str, file: IO[str] | None = None) -> None:
    print(text, file=file)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("describe", help=describe.__doc__)
    one.set_defaults(run=describe)
    one = commands.add_parser("pack", help=pack.__doc__)
    one.set_defaults(run=pack)
    one.add_argument("out", type=Path, metavar="OUT", help="folder for the pieces")
    one.add_argument("wanted", nargs="+", metavar="REQUIREMENT", help="as pip's; '.[all]' is built")
    one.add_argument("--node", type=Path, help="what `describe` said; by default this machine")
    one.add_argument("-c", "--constraints", type=Path, help="file of versions to take")
    one.add_argument("--build", nargs="+", help="what an index has as sources alone")
    one.add_argument("--wheels", type=Path, help="folder of wheels to pack, instead of downloading")
    one.add_argument("--piece-mib", type=float, default=1024.0, help="largest piece (1024)")
    for run, name in ((check, "check"), (install, "install")):
        one = commands.add_parser(name, help=run.__doc__)
        one.set_defaults(run=run)
        one.add_argument("folder", type=Path, metavar="OUT", help="folder of the pieces")
    return parser


if __name__ == "__main__":
    sys.exit(main())
