"""Costs of users' programs that give none."""

import pytest
import torch

from joulelab.errors import ConfigError
from joulelab.workloads.program import workload_type

N = 64


class Product:
    """Multiplies matrices of a million columns, which no memory holds."""

    unit, work = "row", staticmethod(lambda rows: rows)

    def __init__(self, rows: int = 2**20):
        self.left, self.right = torch.zeros(rows, 2**20), torch.zeros(2**20, 2**20)

    def __call__(self):
        return self.left @ self.right


def cost_of(target, **knobs):
    [phase] = workload_type(target).from_knobs(knobs).cost().phases
    return phase


def launches(phase):
    return sum(kernel.count for kernel in phase.kernels)


def test_a_program_without_a_cost_is_traced_with_its_knobs_and_without_memory():
    whole = workload_type(Product).from_knobs({"rows": 2**19}).cost()
    [phase] = whole.phases

    assert (whole.unit, phase.work) == ("row", 2**19)
    assert phase.flop == 2 * 2**19 * 2**40
    assert phase.dram_b == 4 * (2 * 2**19 * 2**20 + 2**40)
    assert whole.resident_b == phase.dram_b  # both factors, and the product


def test_a_function_computes_what_it_holds_with_gradients():
    left = torch.ones(N, N, requires_grad=True)

    def step():
        (left @ left).sum().backward()

    assert cost_of(step).flop >= 3 * 2 * N**3  # forward, and each factor's gradient
    assert torch.equal(left.grad, torch.full((N, N), 2.0 * 2 * N))  # of two calls


def test_what_depends_on_values_is_computed():
    class Positive:
        def __init__(self):
            self.numbers = torch.arange(-8.0, 8.0)

        def __call__(self):
            kept = self.numbers[self.numbers > 0]
            return torch.outer(kept, kept) if kept.sum().item() == 28 else None

    assert 7 * 7 in [kernel.flop for kernel in cost_of(Positive).kernels]


def test_optimizers_work_on_lists_of_tensors_as_on_a_gpu():
    def adam(num_tensors):
        class Adam:
            def __init__(self):
                tensors = [torch.nn.Parameter(torch.zeros(N)) for _ in range(num_tensors)]
                for each in tensors:
                    each.grad = torch.zeros(N)
                self.optimizer = torch.optim.Adam(tensors)

            def __call__(self):
                self.optimizer.step()

        return Adam

    few, many = (cost_of(adam(num_tensors)) for num_tensors in (1, 50))

    assert launches(many) < 2 * launches(few)
    assert many.flop > 30 * few.flop


@pytest.mark.parametrize(
    ("kind", "options", "num_launches"),
    [
        ("SGD", {"momentum": 0.9}, 3),
        ("Adam", {}, 7),
        ("NAdam", {}, 8),  # counts a product besides
        ("Adam", {"fused": True}, 2),  # counts on the GPU, as the next
        ("ASGD", {}, 22),
        ("Adam", {"foreach": False}, 3 * 7),
    ],
)
def test_what_an_optimizer_counts_on_the_host_is_no_launch(kind, options, num_launches):
    """Adam's counter of steps was a launch, and without lists one for each tensor."""

    class Step:
        def __init__(self):
            tensors = [torch.nn.Parameter(torch.zeros(N)) for _ in range(3)]
            for each in tensors:
                each.grad = torch.zeros(N)
            self.optimizer = getattr(torch.optim, kind)(tensors, **options)

        def __call__(self):
            self.optimizer.step()

    assert launches(cost_of(Step)) == num_launches


def test_the_second_call_counts_since_the_first_makes_what_lasts():
    made = []

    def step():
        if not made:
            made.append(torch.zeros(N, N) @ torch.zeros(N, N))
        return made[0] + 1.0

    assert cost_of(step).flop == N * N


@pytest.mark.parametrize("depends_on_values", [False, True])
def test_each_object_that_is_traced_is_closed(depends_on_values):
    """What it had opened, as a server or a file, stayed open until the process ended."""
    is_open = []

    class Opened:
        def __init__(self):
            self.numbers = torch.ones(N)
            is_open.append(self)

        def __call__(self):
            return self.numbers.sum().item() if depends_on_values else self.numbers.exp()

        def close(self):
            is_open.remove(self)

    cost_of(Opened)

    assert is_open == []


def fails():
    raise LookupError("no data")


@pytest.mark.parametrize(
    ("target", "why"),
    [(lambda: sum(range(10)), "shows no kernels"), (fails, r"failed: LookupError\('no data'\)")],
)
def test_a_trace_without_kernels_and_one_that_fails_say_so(target, why):
    with pytest.raises(ConfigError, match=f"has no cost, .*{why}"):
        cost_of(target)


def test_a_trace_is_made_once_for_each_setting():
    calls = []

    def step(size: int = 4):
        calls.append(size)
        return torch.ones(size).exp()

    kind = workload_type(step)
    costs = [kind.from_knobs({"size": size}).cost() for size in (4, 4, 8)]

    assert calls == [4, 4, 8, 8]
    assert costs[0] is costs[1]
