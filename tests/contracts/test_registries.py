"""Every registered implementation is what its family says; registering is how you get tested."""

import dataclasses
import inspect
from typing import get_args, get_type_hints

import pytest

from joulelab.core.quality import Direction
from joulelab.devices import DEVICES
from joulelab.devices.base import Device
from joulelab.errors import UnknownNameError
from joulelab.governor import STRATEGIES as GOVERNOR_STRATEGIES
from joulelab.objectives import OBJECTIVES
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.base import PowerModel
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.base import Metric, Need
from joulelab.quality.subject import Subject
from joulelab.searching.strategies import STRATEGIES
from joulelab.workloads import WORKLOADS
from joulelab.workloads.base import Workload


def is_documented(kind, field):
    """Whether the class says what a field is, or one that it inherits it from does."""
    return any(f"{field}:" in (inspect.getdoc(each) or "") for each in kind.__mro__)


FAMILIES = [DEVICES, GOVERNOR_STRATEGIES, METRICS, OBJECTIVES, POWER_MODELS, STRATEGIES, WORKLOADS]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_misspelt_name_is_answered_with_the_closest_one(family):
    name = min(family)

    with pytest.raises(UnknownNameError, match=f"Did you mean .*'{name}'"):
        family[name[:-1]]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_registry_can_be_asked_whether_it_has_a_name(family):
    assert min(family) in family
    assert "no such name" not in family


@pytest.mark.parametrize(
    "target", [pytest.param(family[n], id=n) for family in FAMILIES for n in family]
)
def test_every_entry_says_what_it_is(target):
    assert inspect.getdoc(target), f"{target} has no docstring"


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_is_whole(name):
    device = DEVICES[name]

    assert issubclass(device, Device)
    assert not inspect.isabstract(device)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_whole_and_its_settings_are_frozen_typed_and_documented(name):
    workload = WORKLOADS[name]
    settings = workload.settings_type

    assert issubclass(workload, Workload)
    assert not inspect.isabstract(workload)
    assert workload.unit
    assert dataclasses.is_dataclass(settings)
    assert settings.__dataclass_params__.frozen
    assert get_type_hints(settings)
    for field in dataclasses.fields(settings):
        assert is_documented(settings, field.name), f"{field.name} is not documented"


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_made_of_its_defaults_names_its_phases(name):
    workload = WORKLOADS[name].from_knobs({})

    assert workload.phases
    assert len(set(workload.phases)) == len(workload.phases)


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_unknown_knob_is_answered_with_the_closest_one(name):
    knob = dataclasses.fields(WORKLOADS[name].settings_type)[0].name

    with pytest.raises(UnknownNameError, match=f"Did you mean .*'{knob}'"):
        WORKLOADS[name].from_knobs({f"{knob}x": 1})


@pytest.mark.parametrize("name", OBJECTIVES)
def test_more_energy_in_more_time_is_never_better(name):
    objective = OBJECTIVES[name]

    assert objective.name == name
    assert objective.cost(300.0, 5.0) > objective.cost(200.0, 4.0)


@pytest.mark.parametrize("name", POWER_MODELS)
def test_a_power_model_is_whole(name):
    model = POWER_MODELS[name]

    assert issubclass(model, PowerModel)
    assert not inspect.isabstract(model)
    assert model.name == name


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_whole_and_its_knobs_are_frozen_and_documented(name):
    metric = METRICS[name]

    assert issubclass(metric, Metric)
    assert not inspect.isabstract(metric)
    assert metric.name == name
    assert metric.direction in get_args(Direction)
    assert metric.needs <= set(get_args(Need))
    assert metric.__dataclass_params__.frozen
    assert metric.from_knobs({}).observation
    for field in dataclasses.fields(metric):
        assert is_documented(metric, field.name), f"{field.name} is not documented"


@pytest.mark.parametrize("name", SUBJECTS)
def test_outputs_that_can_be_scored_are_of_a_workload_and_have_metrics(name):
    subject = SUBJECTS[name]

    assert issubclass(subject, Subject)
    assert not inspect.isabstract(subject)
    assert subject(WORKLOADS[name].from_knobs({})).identity
    assert subject.metrics
    if name == "detection":  # its boxes are compared by a package of the quality extra
        pytest.importorskip("faster_coco_eval")
    for metric in subject.metrics:
        assert METRICS[metric].asks in subject.answers
        METRICS[metric].from_knobs({}).check(subject.read_data(None))
