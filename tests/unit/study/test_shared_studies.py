"""Several programs in one named study: each result is of what was asked for."""

from dataclasses import replace

import pytest

import joulelab
from joulelab.core.point import OperatingPoint
from joulelab.errors import MeasurementError
from joulelab.tracking.store import ResultStore

POINT = OperatingPoint(sm_clock_mhz=810)


def test_what_is_measured_after_a_sweep_is_at_the_clocks_asked_for(make_lab):
    """``measure`` returned the last in the folder: the sweep's lowest clock, not the driver's."""
    lab = make_lab(study="night")
    joulelab.sweep("gemm", clocks_mhz=(1200, 810), repeats=1, lab=lab)

    at_default = joulelab.measure("gemm", lab=lab)
    locked = joulelab.measure("gemm", point=POINT, lab=lab)

    assert at_default.measurement().configuration.point == OperatingPoint()
    assert locked.measurement().configuration.point == POINT
    assert "810MHz" in str(locked)
    assert "810MHz" not in str(at_default)


def test_what_is_measured_after_another_program_is_the_program_asked_for(make_lab):
    """Two programs of one study gave "Say which phase", those of one name the other's figures."""
    lab = make_lab(study="night")
    first = joulelab.measure("gemm", knobs={"n": 2048}, lab=lab)
    before = first.measurement()
    joulelab.measure("stream", lab=lab)
    second = joulelab.measure("gemm", knobs={"n": 4096}, lab=lab)

    assert first.measurement() == before
    assert second.to_frame()["n"].tolist() == [4096]
    assert len(ResultStore(first.folder).read()) == 3


def test_a_sweep_has_the_best_clock_of_its_own_program(make_lab):
    """With another program in the study, ``best`` asked which phase, and the table had both."""
    lab = make_lab(study="night")
    joulelab.measure("stream", lab=lab)
    joulelab.sweep("gemm", knobs={"n": 2048}, clocks_mhz=(1200,), repeats=1, lab=lab)

    found = joulelab.sweep("gemm", knobs={"n": 4096}, clocks_mhz=(810,), repeats=1, lab=lab)

    assert {row.point.sm_clock_mhz for row in found.phase().rows} == {None, 810}
    assert found.best in found.phase().rows
    assert {dict(m.configuration.knobs)["n"] for m in found.measurements} == {4096}
    assert {m.configuration.workload for m in found.measurements} == {"gemm"}


def test_a_program_of_which_nothing_was_measured_has_no_figures_of_others(make_lab):
    found = joulelab.sweep("gemm", clocks_mhz=(810,), repeats=1, lab=make_lab(study="night"))
    other = replace(found.asked, workload="stream")
    measured = joulelab.measure("gemm", lab=make_lab(study="night"))
    lacking = replace(measured, asked=other)

    assert not lacking.valid
    with pytest.raises(MeasurementError, match=r"no measurement of stream .* at default"):
        lacking.measurement()
    with pytest.raises(MeasurementError, match=r"Nothing was measured of stream"):
        found.result.of_program(other)
