import pytest

from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceIdentity
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, Measurement, Observed, Provenance
from joulelab.errors import MeasurementError
from joulelab.objectives import OBJECTIVES


def measurement_of(energy_j=200.0, duration_s=4.0, work=2.0, findings=()):
    window = EnergyWindow(
        start_s=0.0,
        duration_s=duration_s,
        energy_j=energy_j,
        energy_u_j=1.0,
        source="counter",
        work=work,
    )
    return Measurement(
        measurement_id="0",
        study="s",
        trial="t",
        configuration=Configuration.of("gemm"),
        phase="gemm",
        unit="TFLOP",
        device=DeviceIdentity(uuid="0", name="Fake", backend="fake", driver_version="1"),
        windows=(window,),
        idle=None,
        observed=Observed(),
        findings=findings,
        provenance=Provenance(
            joulelab_version="0", git_sha=None, hostname="h", python_version="3", started_at="now"
        ),
    )


@pytest.mark.parametrize(
    ("name", "cost"), [("energy", 100.0), ("time", 2.0), ("edp", 200.0), ("ed2p", 400.0)]
)
def test_objectives_match_their_definitions(name, cost):
    assert OBJECTIVES[name](measurement_of()) == pytest.approx(cost)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_more_energy_in_more_time_is_never_better(name):
    worse = OBJECTIVES[name](measurement_of(energy_j=300.0, duration_s=5.0))

    assert worse > OBJECTIVES[name](measurement_of())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_invalid_measurement_has_no_cost(name):
    throttled = Finding(reason="throttled", detail="The power cap held the clocks down.")

    with pytest.raises(MeasurementError, match="throttled"):
        OBJECTIVES[name](measurement_of(findings=(throttled,)))
