"""What an experiment's script reads from its command line."""

import ast
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def settings_of(words):
    """Run a script but for its ``main``; return the settings that this would be given."""
    read = []
    begin, names = script(ROOT / words[0])
    before, sys.argv = sys.argv, list(words)
    try:
        with pytest.raises(SystemExit) as end:
            exec(begin, names | {"main": lambda settings: read.append(settings) or 0})
    finally:
        sys.argv = before
    assert read, f"{' '.join(words)} is refused"
    assert end.value.code == 0
    return read[0]


@cache
def script(path):
    """The end of a script, which reads the command line, and the names that it has by then."""
    body = ast.parse(path.read_text()).body[-1].body
    spec = spec_from_file_location(f"shown_{path.stem}", path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return compile(ast.Module(body, []), str(path), "exec"), vars(module)
