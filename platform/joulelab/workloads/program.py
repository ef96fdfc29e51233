"""Any callable as a workload: a call of it is one unit of work."""

import inspect
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from dataclasses import asdict, field, make_dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar, get_origin, get_type_hints

from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.core.cost import PhaseCost, Request, WorkloadCost
from joulelab.core.process import synchronise
from joulelab.core.quality import Direction
from joulelab.errors import ConfigError
from joulelab.workloads.base import Workload, alternatives, no_cost, require_positive

PHASE = "run"
_RUN_S = 0.05
"""Calls that return sooner are repeated before the GPU is waited for, as a loop repeats them."""
_ARE_LAZY = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
_PLAIN = (str, int, float, bool, type(None))

Work = float | Callable[..., float]
"""How many units of work a call does, or what returns it for the knobs."""
Cost = WorkloadCost | PhaseCost
"""What a call asks of a device; of a phase its name and work are the program's."""
Quality = Callable[..., Any]
"""What returns the scores of the outputs for the knobs; see :meth:`Workload.quality`."""


class Program(Workload[Any]):
    """Runs a callable over and over; made by :func:`workload_type`.

    A function is called with its knobs. Of a class an object is made with them, which is then
    called. The GPUs are waited for after each run of some 50 ms, not after each call.
    """

    target: ClassVar[tuple[Callable[..., object]]]
    is_defined_by_settings: ClassVar[bool] = False
    phases = (PHASE,)
    given_work: ClassVar[Work]
    given_cost: ClassVar[Cost | Callable[..., Cost] | None]

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        self.call: Callable[[], object] | None = None
        """What is called; ``None`` unless it is prepared."""
        self._num_calls = 1
        given = self.given_work
        work = given(**self._knobs()) if callable(given) else given
        require_positive("work", work)
        self._calls_work = float(work)

    @property
    @override
    def has_cost(self) -> bool:
        """Whether it is given; otherwise a call is traced when it is asked for."""
        return self.given_cost is not None

    @property
    @override
    def request(self) -> Request:
        """One call."""
        return Request(units={PHASE: self._calls_work}, size=self._calls_work)

    @override
    def prepare(self) -> None:
        """Make what is called, and call it once: compilation and first allocations come then."""
        if isinstance(self.make()(), Generator | AsyncGenerator | Coroutine):
            raise _no_work(type(self).__name__)
        synchronise()
        self._num_calls = 1

    def make(self) -> Any:
        """Return what is called until it is closed: a function with its knobs, or an object."""
        made: Any = partial(self.target[0], **self._knobs())
        self.call = made() if self.is_class else made
        return self.call

    @property
    def is_class(self) -> bool:
        """Whether what is called is an object that it makes."""
        return isinstance(self.target[0], type)

    @override
    def run(self, phase: str) -> float:
        if self.call is None:
            raise ConfigError(f"{type(self).__name__} must be prepared before it runs.")
        num_calls, start_s = self._num_calls, time.perf_counter()
        for _ in range(num_calls):
            self.call()
        synchronise()
        if time.perf_counter() - start_s < _RUN_S / 2:
            self._num_calls *= 2
        return num_calls * self._calls_work

    @override
    def close(self) -> None:
        call, self.call = self.call, None
        if call is None:
            return
        if self.is_class and callable(close := getattr(call, "close", None)):
            close()
        del call
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    @override
    def cost(self) -> WorkloadCost:
        given = self.given_cost
        if given is None:
            return _traced_cost(type(self), self.settings)
        cost = given(**self._knobs()) if callable(given) else given
        if isinstance(cost, PhaseCost):
            phase = replace(cost, phase=PHASE, work=self._calls_work)
            return WorkloadCost(unit=self.unit, phases=(phase,), resident_b=cost.parameter_b)
        if not isinstance(cost, WorkloadCost):
            raise ConfigError(
                f"The cost of {type(self).__name__} must be a WorkloadCost or the PhaseCost of a "
                f"call, got {cost!r}."
            )
        return cost

    def _knobs(self) -> dict[str, KnobValue]:
        return asdict(self.settings)


@cache
def _traced_cost(kind: type[Program], settings: object) -> WorkloadCost:
    """Return what a trace of a call shows; ConfigError if it fails, or launches no kernels."""
    if "torch" not in sys.modules:
        raise no_cost(kind.__name__, ", and uses no PyTorch that could be traced")
    from joulelab.workloads.traced_call import traced_call

    program = kind(settings)
    try:
        kernels, host_calls, held_b = traced_call(
            program.make, program.close, makes_tensors=program.is_class
        )
    except Exception as error:  # code of the user's may raise anything
        raise no_cost(kind.__name__, f", and a trace of it failed: {error!r}") from error
    if not kernels:
        raise no_cost(kind.__name__, ", and a trace shows no kernels of PyTorch")
    work = program.request.units[PHASE]
    phase = PhaseCost(phase=PHASE, work=work, kernels=kernels, host_calls=host_calls)
    return WorkloadCost(unit=kind.unit, phases=(phase,), resident_b=held_b)


class ScoredProgram(Program):
    """A program that says what its outputs are worth: an object of its class, or a function."""

    given_quality: ClassVar[Quality | None]

    @override
    def quality(self) -> Any:
        if self.given_quality is not None:
            return self.given_quality(**self._knobs())
        return self.make().quality()


def workload_type(
    target: object,
    *,
    unit: str | None = None,
    work: Work | None = None,
    cost: Cost | Callable[..., Cost] | None = None,
    quality: Quality | None = None,
    quality_direction: Direction | None = None,
) -> type[Workload[Any]]:
    """Return ``target`` as a class of workloads.

    Args:
        target: A subclass of :class:`Workload`, which is returned as it is; or a callable whose
            call is one unit of work: a function, an object, or a class whose objects are callable.
            Arguments of a function or constructor that have a plain default become knobs.
        unit: What a call does, in the singular; by default the target's ``unit``, or ``"call"``.
        work: How many of those, or what returns it for the knobs: ``lambda batch: batch``; by
            default the target's ``work``, or 1.
        cost: What a call costs, or what returns it for the knobs; by default the target's
            ``cost``, else what a trace of it shows. Only simulated GPUs and the estimator ask.
        quality: What returns the scores of the outputs for the knobs; by default the method
            ``quality`` of the class's objects, or the function's attribute.
        quality_direction: Which of these are better; by default the target's
            ``quality_direction``, or ``"higher"``.

    Raises:
        ConfigError: If it cannot be called again and again without arguments.
    """
    if isinstance(target, type) and issubclass(target, Workload):
        if any(each is not None for each in (unit, work, cost, quality, quality_direction)):
            raise ConfigError(
                f"{target.__name__} is a Workload: it says unit, work, cost and quality."
            )
        return target
    name = getattr(target, "__name__", type(target).__name__)
    _check_callable(target, name)
    own_quality = getattr(target, "quality", None)
    function = own_quality if quality is None and not isinstance(target, type) else quality
    return type(
        name,
        (ScoredProgram if callable(quality or own_quality) else Program,),
        {
            "__module__": getattr(target, "__module__", __name__),
            "__doc__": inspect.getdoc(target),
            "settings_type": _settings_type(target, name),
            "unit": str(getattr(target, "unit", "call") if unit is None else unit),
            "target": (target,),  # in a tuple, lest a function becomes a method
            "given_work": _unbound(getattr(target, "work", 1.0) if work is None else work),
            "given_cost": _unbound(getattr(target, "cost", None) if cost is None else cost),
            "given_quality": _unbound(function),
            "quality_direction": quality_direction
            or getattr(target, "quality_direction", Program.quality_direction),
            "quality_knobs": getattr(target, "quality_knobs", None),
        },
    )


def _check_callable(target: object, name: str) -> None:
    called = target
    if isinstance(target, type):
        is_defined = any("__call__" in vars(kind) for kind in target.__mro__)  # not its type's
        called = getattr(target, "__call__", None) if is_defined else None  # noqa: B004
    if not callable(called):
        raise ConfigError(
            f"A program is a function, an object that can be called, a class of such objects, or a "
            f"Workload, got {target!r}."
        )
    calls = (called, getattr(called, "__call__", None))  # noqa: B004
    if any(asks(each) for each in calls for asks in _ARE_LAZY):
        raise _no_work(name)


def _no_work(name: str) -> ConfigError:
    return ConfigError(
        f"Calling {name} does no work yet, since it is or returns a generator or a coroutine; give "
        "a function that runs it to its end."
    )


def _unbound(given: Any) -> Any:
    """Keep a function from becoming a method of the class that holds it."""
    return staticmethod(given) if callable(given) else given


def _settings_type(target: object, name: str) -> type[Any]:
    knobs: list[tuple[str, Any, Any]] = []
    for parameter in _parameters(target):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            raise ConfigError(
                f"{name} needs the argument {parameter.name!r}; a program is called without "
                "arguments, so give it a default, or make a function that passes it."
            )
        kind = _kind_of(parameter, _hints(target))
        if kind is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            knobs.append((parameter.name, kind, field(default=parameter.default)))
    namespace: Mapping[str, Any] = {"__doc__": inspect.getdoc(target) or f"Knobs of {name}."}
    return make_dataclass(
        f"{name.title().replace('_', '')}Settings",
        knobs,
        frozen=True,
        kw_only=True,
        namespace=dict(namespace),
    )


def _parameters(target: object) -> list[inspect.Parameter]:
    """Return what a call takes: of a class, its constructor's; of an object, its own call's."""
    try:
        return list(inspect.signature(target).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a built-in does not say
        return []


def _hints(target: object) -> dict[str, Any]:
    try:
        return get_type_hints(target.__init__ if isinstance(target, type) else target)  # type: ignore[misc]
    except (NameError, TypeError):  # names that exist for a type checker alone; an object
        return {}


def _kind_of(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """Return the type of a knob; ``None`` if it is not of a plain type."""
    hint, default = hints.get(parameter.name), parameter.default
    if not isinstance(default, _PLAIN):
        return None
    if hint is not None and all(_is_plain(part) for part in alternatives(hint)):
        return hint
    return None if default is None else type(default)


def _is_plain(hint: Any) -> bool:
    return hint in _PLAIN or hint is None or getattr(get_origin(hint), "__name__", "") == "Literal"
