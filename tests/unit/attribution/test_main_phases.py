"""Which phase of a program a kernel of several is priced for."""

import pytest

from joulelab.attribution.profile import KernelCall, PhaseProfile, main_phases
from joulelab.tracing.program import Operator


def profile(phase, **taken_s):
    moved = {"flop": 0.0, "read_b": 1.0, "weight_b": 0.0, "written_b": 1.0}
    calls = tuple(
        KernelCall(
            operator=Operator(name=name, kind="copy", **moved), kernel=name, device_s=seconds
        )
        for name, seconds in taken_s.items()
    )
    return PhaseProfile(phase=phase, executions=1, unit="token", work=1.0, calls=calls)


def test_a_kernel_belongs_to_the_phase_of_which_it_takes_most():
    prefill = profile("prefill", product=9e-4, head=1e-4)
    decode = profile("decode", product_of_one=2e-4, head=1e-4)

    found = main_phases([prefill, decode])

    assert found == {"product": "prefill", "product_of_one": "decode", "head": "decode"}
    assert main_phases([decode, prefill]) == found


@pytest.mark.parametrize("seconds", [0.0, 1e-5])
def test_of_equal_shares_the_first_phase_counts(seconds):
    assert main_phases([profile(each, add=seconds) for each in "ab"]) == {"add": "a"}
