"""Cut a traced model over several devices by tensor parallelism.

The plan is that of transformers: the projections into attention and feed-forward layers are cut
by columns, those out of them by rows, after which the devices sum their results. Between the two
every value is cut, so that heads and features are shared out; everything else is computed by
every device (Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, groupby

from joulelab.errors import ConfigError
from joulelab.estimator.models.sources import find_model
from joulelab.tracing.program import ALL_REDUCE, Kind, MatrixShape, Operator, Program, TracedModel

_CUT = ("colwise", "rowwise", "partial", "inside")
"""Styles whose work is divided; "partial" is a cut by rows that is summed only later."""


def tensor_parallel(model: TracedModel, num_devices: int) -> TracedModel:
    """Return what each of ``num_devices`` devices does of ``model``.

    Raises ConfigError if there is no plan for the model, if it is a training step, or if the
    devices cannot share its heads and layers equally.
    """
    if num_devices < 1:
        raise ConfigError(f"num_devices must be at least 1, got {num_devices}.")
    if num_devices == 1:
        return model
    found = find_model(model.name)
    plan = _Plan(found.sharding_plan)
    if not found.sharding_plan:
        raise ConfigError(
            f"{model.name} has no plan for tensor parallelism; language models such as "
            "llama-2-7b have one. Use one device."
        )
    if any(
        operator.stage != "forward"
        for phase in model.phases
        for operator in phase.program.operators
    ):
        raise ConfigError(f"A training step of {model.name} cannot be cut; only inference can.")
    found.check_shards(num_devices)
    # A decode step may read only some experts, but holds all that the prefill reads.
    cut_b = max(_cut_weight_b(phase.program.operators, plan) for phase in model.phases)
    phases = tuple(
        replace(phase, program=_cut(phase.program, plan, num_devices, cut_b))
        for phase in model.phases
    )
    return replace(model, phases=phases)


class _Plan:
    """Which cut an operator belongs to, by the path of its module."""

    def __init__(self, styles: Mapping[str, str]) -> None:
        experts = [path for path, style in styles.items() if style == "experts"]
        cut = {
            path: style
            for path, style in styles.items()
            if style != "experts" and path.rpartition(".")[0] not in experts
        }
        self._experts = [_pattern(path, below=True) for path in experts]
        self._cut = [(_pattern(path), style) for path, style in cut.items()]
        parents = {path.rpartition(".")[0] for path in cut}
        self._inside = [_pattern(parent, below=True) for parent in parents]

    def styles(self, operators: Sequence[Operator]) -> list[str]:
        """Return the style of each operator; that of experts is found from their products."""
        styles = [self._style(operator.module) for operator in operators]
        runs = groupby(range(len(styles)), key=lambda index: styles[index])
        for style, run in runs:
            if style == "experts":
                members = tuple(run)
                styles[members[0] : members[-1] + 1] = _styles_of_experts(
                    [operators[index].kind for index in members]
                )
        return styles

    def _style(self, module: str) -> str:
        for pattern, style in self._cut:
            if pattern.search(module):
                return style
        if any(pattern.search(module) for pattern in self._experts):
            return "experts"
        return "inside" if any(pattern.search(module) for pattern in self._inside) else ""


def _styles_of_experts(kinds: Sequence[Kind]) -> list[str]:
    """Cut the first product by columns, the last by rows; sum after the last operator."""
    products = [index for index, kind in enumerate(kinds) if kind == "gemm"]
    if len(products) < 2:
        raise ConfigError("Experts need two products, into and out of them, to be cut.")
    first, last = products[0], products[-1]
    styles = ["inside" if first < index < last else "" for index in range(len(kinds))]
    styles[-1] = "summed"
    styles[first], styles[last] = "colwise", "partial" if last < len(kinds) - 1 else "rowwise"
    return styles


def _pattern(path: str, *, below: bool = False) -> re.Pattern[str]:
    """Return what matches ``path`` at the end of a dotted path, or anywhere below it."""
    inner = re.escape(path).replace(r"\*", r"\d+")
    return re.compile(rf"(^|\.){inner}" + (r"(\.|$)" if below else "$"))


def _cut(program: Program, plan: _Plan, num_devices: int, cut_weight_b: float) -> Program:
    """Return one device's part; activations that are alive are kept whole, which is the most."""
    styles = plan.styles(program.operators)
    pairs = list(zip(program.operators, styles, strict=True))
    shared = tuple(_share(operator, style, num_devices) for operator, style in pairs)
    summed = with_sums(
        replace(program, operators=shared),
        [
            style == "summed" or (style == "rowwise" and operator.kind == "gemm")
            for operator, style in pairs
        ],
    )
    kept = 1 - 1 / num_devices
    return replace(
        summed,
        parameter_b=program.parameter_b - kept * cut_weight_b,
        input_b=program.input_b - kept * program.kv_b,
        kv_b=program.kv_b - kept * program.kv_b,
    )


def with_sums(program: Program, is_summed: Sequence[bool]) -> Program:
    """Return one device's program with a sum over all devices after some of its operators."""
    operators: list[Operator] = []
    live_b: list[float] = []
    sums: dict[int, int] = {}
    values = (
        each for operator in program.operators for each in (*operator.inputs, *operator.outputs)
    )
    fresh = count(1 + max(values, default=0))
    rows = zip(program.operators, is_summed, program.live_b, strict=True)
    for operator, has_sum, alive_b in rows:
        inputs = tuple(sums.get(value, value) for value in operator.inputs)
        operators.append(replace(operator, inputs=inputs))
        live_b.append(alive_b)
        if has_sum:
            operators.append(_all_reduce(operators[-1], next(fresh)))
            live_b.append(alive_b)
            sums[operator.outputs[0]] = operators[-1].outputs[0]
    return replace(program, operators=tuple(operators), live_b=tuple(live_b))


def _cut_weight_b(operators: Sequence[Operator], plan: _Plan) -> float:
    styles = plan.styles(operators)
    return sum(
        operator.weight_b
        for operator, style in zip(operators, styles, strict=True)
        if style in _CUT
    )


def _share(operator: Operator, style: str, num_devices: int) -> Operator:
    """Return one device's part: inputs stay whole under "colwise", the output under "rowwise"."""
    if style not in _CUT:
        return operator
    reads = 1.0 if style == "colwise" else 1 / num_devices
    writes = 1.0 if style in ("rowwise", "partial") else 1 / num_devices
    return replace(
        operator,
        flop=operator.flop / num_devices,
        weight_b=operator.weight_b / num_devices,
        read_b=operator.read_b * reads,
        inputs_b=tuple(each_b * reads for each_b in operator.inputs_b),
        written_b=operator.written_b * writes,
        outputs_b=tuple(each_b * writes for each_b in operator.outputs_b),
        shape=_share_of_shape(operator, style, num_devices),
    )


def _share_of_shape(operator: Operator, style: str, num_devices: int) -> MatrixShape | None:
    shape = operator.shape
    if shape is None:
        return None
    match style:
        case "colwise":
            return replace(shape, n=shape.n // num_devices)
        case "rowwise" | "partial":
            return replace(shape, k=shape.k // num_devices)
        case _:
            return replace(shape, batch=max(shape.batch // num_devices, 1))


def _all_reduce(summand: Operator, value: int) -> Operator:
    """Return the sum of ``summand``'s results over the devices, written as ``value``."""
    return Operator(
        name=ALL_REDUCE,
        kind="copy",
        module=summand.module,
        dtype=summand.dtype,
        flop=0.0,
        read_b=summand.written_b,
        weight_b=0.0,
        written_b=summand.written_b,
        inputs=summand.outputs,
        inputs_b=summand.outputs_b,
        outputs=(value,),
        outputs_b=(summand.written_b,),
    )
