"""Values cannot be changed behind the back of who holds them (docs: what a change must keep)."""

import importlib
import pkgutil
from dataclasses import fields, is_dataclass

import pytest

import joulelab

FOLDERS = ("core", "sampling", "guard", "tracking")
CHANGED = {"Session", "Grant", "_Watched", "_Kept"}  # state of what is under way, not values
BY_PLACE = {"_Edge", "PowerTrace", "Series"}  # a pair whose order is plain
HELD_ARRAYS = {"AdditiveFit", "CounterPolls", "Ticks", "PowerTrace", "Series"}
UNEQUAL = HELD_ARRAYS | {"Record", "SampleLog", "Pyfunc"}  # arrays have no single truth of ==


def dataclasses_of(folder):
    for found in pkgutil.walk_packages(joulelab.__path__, "joulelab."):
        if found.name.startswith(f"joulelab.{folder}."):
            for value in vars(importlib.import_module(found.name)).values():
                is_kind = isinstance(value, type) and is_dataclass(value)
                if is_kind and value.__module__ == found.name:
                    yield value


@pytest.mark.parametrize("folder", FOLDERS)
def test_values_are_frozen_have_slots_and_are_given_by_name(folder):
    for kind in dataclasses_of(folder):
        name, options = kind.__name__, kind.__dataclass_params__
        assert options.frozen is (name not in CHANGED), name
        assert "__slots__" in vars(kind), name
        assert all(field.kw_only for field in fields(kind)) is (name not in BY_PLACE), name
        assert options.eq is (name not in UNEQUAL), name
