"""The catalogue: one data file per device, read when it is first asked for.

A figure is an inline table ``{ value = ..., status = "S", source = "..." }``; it stands in a
section, or in a section of a section, e.g. ``[power]`` or ``[levels.L2]``. A file of a GPU may name
another one that it is like (:mod:`joulelab.hardware.board_file`), and may be the user's own
(:mod:`joulelab.hardware.places`).
"""

import tomllib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources.abc import Traversable
from itertools import islice
from math import floor, isnan
from typing import Any, TypeVar

from typing_extensions import override

from joulelab.core.device import boards_in
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.hardware.board_file import completed, own_problems, problems_of
from joulelab.hardware.places import (
    ALIASES,
    gpu_names,
    names_in,
    place_of,
    stamp_of,
    user_files,
    where_else,
)
from joulelab.hardware.processor import Figure, VoltageCurve
from joulelab.hardware.spec import (
    ChipSpec,
    GpuSpec,
    LinkSpec,
    PowerSpec,
    SensorSpec,
    ThermalSpec,
    TimingSpec,
)
from joulelab.registry import unknown_name

_Entry = TypeVar("_Entry")
_TIER = {"value": "C", "status": "E", "source": "a board of the user's, not calibrated"}
"""Of a user's board that says nothing else: what the other was calibrated to does not pass on."""
_SIGNED = ("curvature_per_ghz2",)


def read_data_file(folder: str, name: str) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Return the values of a data file, nested as its sections, and its figures by dotted name."""
    sections = _sections(folder, name)
    return _values(sections), dict(figures_in(sections))


def _sections(folder: str, name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the sections of a data file, completed by those of the product that it is like."""
    place = place_of(folder, name)
    sections = read_sections(place)
    if folder == "gpus" and name in user_files():
        return _own_sections(sections, name, place, seen)
    other = sections.pop("like", None)
    return completed(sections, _sections(folder, other), other) if other else sections


def read_sections(place: Traversable) -> dict[str, Any]:
    """Return a data file as it is; ConfigError if it is no TOML file that can be read."""
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"A readable TOML file is required, got {place}: {error}.") from error


def _own_sections(
    found: dict[str, Any], key: str, place: Traversable, seen: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the sections of a user's own GPU, completed and checked."""
    other = found.pop("like", None)
    if other is not None:
        if other not in set(gpu_names()) or other in (*seen, key):
            raise ConfigError(
                f"{place}: like must name another GPU of the catalogue, got {other!r}."
            )
        if not own_problems(found):
            found.setdefault("chip", {}).setdefault("tier", _TIER)
            found = completed(found, _sections("gpus", other, (*seen, key)), other)
    if problems := own_problems(found) or problems_of(found):
        raise ConfigError(f"{place} cannot be used: {' '.join(problems)}")
    return found


def data_in(text: str) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Return the values and figures of the text of a data file that is complete in itself."""
    sections = tomllib.loads(text)
    return _values(sections), dict(figures_in(sections))


def _values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _value(entry["value"]) if "value" in entry else _values(entry)
        for name, entry in section.items()
    }


def _value(value: Any) -> Any:
    return tuple(_value(item) for item in value) if isinstance(value, list) else value


def figures_in(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Figure]]:
    """Yield all figures of a data file as read, with their dotted names."""
    for name, entry in section.items():
        if "value" in entry:
            figure = Figure(**entry)
            is_number = isinstance(figure.value, int | float)
            if is_number and isnan(figure.value):
                raise ConfigError(f"{prefix + name} must be a number, got NaN.")
            if is_number and figure.value < 0 and name not in _SIGNED:
                raise ConfigError(f"{prefix + name} must not be negative, got {figure.value:g}.")
            yield prefix + name, figure
        else:
            yield from figures_in(entry, f"{prefix}{name}.")


class Catalogue(Mapping[str, _Entry]):
    """Read-only mapping from a key or an alias to what ``read`` makes of it on first use.

    It iterates over keys alone, and raises ``UnknownNameError`` with the closest names and a hint.
    ``kind`` is what an entry is, for messages; ``stamp`` returns of a key what changes when its
    entry must be read anew.
    """

    def __init__(
        self,
        kind: str,
        keys: Callable[[], Iterable[str]],
        read: Callable[[str], _Entry],
        aliases: Mapping[str, str],
        *,
        stamp: Callable[[str], Hashable] = lambda key: None,
        hint: Callable[[], str] = lambda: "",
    ) -> None:
        self._kind, self._keys, self._make, self._aliases = kind, keys, read, aliases
        self._stamp, self._hint = stamp, hint
        self._read: dict[tuple[str, Hashable], _Entry] = {}

    @override
    def __getitem__(self, key: str) -> _Entry:
        key = self._aliases.get(key, key)
        place = (key, self._stamp(key))
        if place not in self._read:
            if key not in self:
                unknown = unknown_name(self._kind, key, {*self, *self._aliases})
                raise UnknownNameError(f"{unknown}{self._hint()}")
            try:
                self._read[place] = self._make(key)
            except (KeyError, TypeError) as error:
                raise ConfigError(
                    f"The data file of the {self._kind} {key!r} must hold every figure: {error}."
                ) from error
        return self._read[place]

    @override
    def __contains__(self, key: object) -> bool:
        return key in {*self, *self._aliases}

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    @override
    def __len__(self) -> int:
        return len(list(self._keys()))


def spec_for(product_name: str) -> GpuSpec | None:
    """Return the GPU that NVML calls so, or ``None``; ConfigError if two are called so."""
    own = user_files()
    ours = (spec for key, spec in GPUS.items() if key not in own)
    found = [*islice((one for one in ours if product_name in one.product_names), 1)]
    found += [GPUS[key] for key in own if product_name in GPUS[key].product_names]
    if len(found) > 1:
        places = " and ".join(str(place_of("gpus", spec.key)) for spec in found)
        raise ConfigError(
            f"A product name must be of one GPU, {product_name!r} is in {places}: change "
            "identity.product_names in a file of yours."
        )
    return found[0] if found else None


def spec_of_boards(name: str) -> GpuSpec | None:
    """Return what a search expects of one board, or of several: of ``"2 x NVIDIA H200"``.

    Of several that run a program together, constant power and limit count for each. ``None`` and
    errors as of :func:`spec_for`.
    """
    num, product_name = boards_in(name)
    spec = spec_for(product_name)
    if spec is None or num == 1:
        return spec
    return replace(
        spec,
        power=replace(spec.power, constant_w=num * spec.power.constant_w),
        default_power_limit_w=num * spec.default_power_limit_w,
    )


def clock_grid_mhz(min_mhz: float, max_mhz: float, step_mhz: float) -> tuple[int, ...]:
    """Return the clocks from ``max_mhz`` down to ``min_mhz``, each cut to whole MHz."""
    num_steps = round((max_mhz - min_mhz) / step_mhz)
    return tuple(floor(max_mhz - i * step_mhz) for i in range(num_steps + 1))


def board_of(key: str, text: str, place: Traversable) -> GpuSpec:
    """Return the GPU of a file's text; ConfigError that names each figure it lacks or has wrong."""
    sections = _own_sections(tomllib.loads(text), key, place)
    return _spec_of(key, _values(sections), dict(figures_in(sections)))


def _spec(key: str) -> GpuSpec:
    return _spec_of(key, *read_data_file("gpus", key))


def _spec_of(key: str, values: Mapping[str, Any], figures: Mapping[str, Figure]) -> GpuSpec:
    clocks, limits, memory, timing = (
        values[name] for name in ("clocks", "limits", "memory", "timing")
    )
    grid = tuple(map(int, sorted(clocks.get("sm_mhz", ()), reverse=True))) or clock_grid_mhz(
        clocks["sm_min_mhz"], clocks["sm_max_mhz"], clocks["sm_step_mhz"]
    )
    study_min_mhz = clocks.get("study_min_mhz", grid[-1])
    return GpuSpec(
        key=key,
        **values["identity"],
        sm_clocks_mhz=grid,
        study_clocks_mhz=tuple(clock for clock in grid if clock >= study_min_mhz),
        default_clock_mhz=clocks["default_mhz"],
        stays_at_default=clocks.get("stays_at_default", False),
        idle_clock_mhz=clocks["idle_mhz"],
        mem_clocks_mhz=clocks["mem_mhz"],
        mem_clock_lockable=clocks["mem_lockable"],
        power_limits_w=(limits["min_w"], limits["max_w"]),
        default_power_limit_w=limits["default_w"],
        sm_count=values["units"]["sm_count"],
        flop_per_clock_per_sm=values["operations_per_clock_per_sm"],
        memory_bandwidth_b_per_s=memory["bandwidth_b_per_s"],
        memory_b=memory["size_b"],
        l2_b=memory["l2_b"],
        sensor=SensorSpec(**values["sensor"]),
        thermal=ThermalSpec(**values["thermal"]),
        voltage=VoltageCurve(**values["voltage"]),
        power=PowerSpec(**values["power"], pipe_w_per_ghz=values["pipe_w_per_ghz"]),
        timing=TimingSpec(
            eager_launch_s={"default": timing.pop("host_launch_s")},
            graph_launch_s=values["chip"].pop("graph_launch_s"),
            pipe_efficiency=values["pipe_efficiency"],
            kind_efficiency=values.get("kind_efficiency", {}),
            **timing,
        ),
        chip=ChipSpec(**values["chip"]),
        link=LinkSpec(**values["link"]),
        figures=figures,
    )


GPUS: Catalogue[GpuSpec] = Catalogue(
    "GPU",
    gpu_names,
    _spec,
    {short: key for short, key in ALIASES.items() if key in names_in("gpus")},
    stamp=stamp_of,
    hint=where_else,
)
