"""How much of a program could run side by side, from what its kernels wait for."""

from collections import Counter
from collections.abc import Iterator, Sequence

from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Concurrency
from joulelab.estimator.graph.fusion import Groups, group_indices
from joulelab.estimator.program import Program


def concurrency(program: Program, groups: Groups, seconds: Sequence[float]) -> Concurrency:
    """Return the width and the critical path of ``groups``.

    A group's depth is the most groups that must run one after the other before it; groups of one
    depth do not depend on each other.

    Args:
        program: What the groups index into.
        groups: Kernels in an order in which they can run, each operator exactly once.
        seconds: Time on the device of each group.

    Returns:
        Its ``mean_width`` is 0 for a program without groups.

    Raises:
        ConfigError: If ``seconds`` are not one per group, or if a group reads a value that a
            later one writes.
    """
    if len(seconds) != len(groups):
        raise ConfigError(f"seconds must be one per group, got {len(seconds)} for {len(groups)}.")
    depths: list[int] = []
    ends_s: list[float] = []
    for waits_for, seconds_here in zip(_dependences(program, groups), seconds, strict=True):
        depths.append(1 + max((depths[group] for group in waits_for), default=0))
        ends_s.append(seconds_here + max((ends_s[group] for group in waits_for), default=0.0))
    critical_path = max(depths, default=0)
    return Concurrency(
        num_groups=len(groups),
        critical_path=critical_path,
        mean_width=len(groups) / critical_path if groups else 0.0,
        max_width=max(Counter(depths).values(), default=0),
        critical_s=max(ends_s, default=0.0),
    )


def _dependences(program: Program, groups: Groups) -> Iterator[set[int]]:
    """Yield for each group the positions of the groups whose values it reads."""
    group_of = group_indices(program, groups)
    writer = {
        value: index
        for index, operator in enumerate(program.operators)
        for value in operator.outputs
    }
    for position, group in enumerate(groups):
        inputs = (value for index in group for value in program.operators[index].inputs)
        waits_for = {group_of[writer[value]] for value in inputs if value in writer} - {position}
        if any(earlier > position for earlier in waits_for):
            raise ConfigError(
                f"groups must be in an order in which they can run, but group {position} reads a "
                f"value that group {max(waits_for)} writes."
            )
        yield waits_for
