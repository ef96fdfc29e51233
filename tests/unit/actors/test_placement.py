"""Which GPUs of a node are ours, and how an actor is put beside one."""

import shutil
from dataclasses import replace

import pytest

from joulelab.core.device import Capabilities, DeviceAddress, DeviceIdentity
from joulelab.devices.choice import visible
from joulelab.devices.simulated import fleet
from joulelab_actors.placement import Site, _Sighting, _simulate, _sites_on, grouped_sites

FOUR = [DeviceAddress(backend="nvml", uuid=f"GPU-{letter * 4}") for letter in "abcd"]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, "abcd"),
        ("", ""),
        ("2", "c"),
        ("3,0", "ad"),
        ("GPU-bbbb", "b"),
        ("GPU-b, GPU-dddd", "bd"),
        ("7", ""),
    ],
)
def test_only_gpus_that_the_scheduler_gave_us_are_taken(setting, expected):
    found = visible(FOUR, setting)

    assert [address.uuid for address in found] == [f"GPU-{letter * 4}" for letter in expected]


def site(backend="nvml", resource=None, counted=True):
    address = DeviceAddress(backend=backend, uuid="GPU-aaaa")
    return Site(
        address=address,
        identity=DeviceIdentity(
            uuid=address.uuid, name="GPU", backend=backend, driver_version="580"
        ),
        capabilities=Capabilities(
            sm_clocks_mhz=(),
            mem_clocks_mhz=(),
            power_limits_w=None,
            default_power_limit_w=None,
            has_energy_counter=True,
            has_power_samples=True,
            has_memory_power=False,
            has_activity=False,
            can_set_clocks=None,
        ),
        node_id="0" * 56,
        hostname="node-1",
        resource=resource,
        counted=counted,
    )


def test_an_actor_on_a_real_gpu_sees_that_gpu_alone_whatever_ray_would_give_it():
    options = site().actor_options()

    environment = options["runtime_env"]["env_vars"]
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"
    assert environment["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"] == "1"
    assert options["num_gpus"] == 1


def test_an_actor_of_several_gpus_sees_and_takes_those_of_its_node_alone():
    sites = [
        replace(site(resource=f"dev:{address.uuid}"), address=address, hostname=hostname)
        for address, hostname in zip(FOUR, ("n1", "n2", "n1", "n1"), strict=True)
    ]

    (group,) = grouped_sites(sites, 2)
    options = group.actor_options()

    environment = options["runtime_env"]["env_vars"]
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa,GPU-cccc"
    assert options["resources"] == {"dev:GPU-aaaa": 1, "dev:GPU-cccc": 1}
    assert options["num_gpus"] == 2


def test_an_actor_follows_its_gpu_where_nodes_declare_them():
    options = site(resource="dev:GPU-aaaa").actor_options()

    assert options["resources"] == {"dev:GPU-aaaa": 1}
    assert "scheduling_strategy" not in options


@pytest.mark.parametrize("outlives", [True, False])
def test_a_driver_hears_from_nodes_whether_their_guards_outlive_the_job(outlives):
    said = _Sighting(hostname="n1", found=(replace(site(), guard_outlives_job=outlives),))

    [found] = _sites_on({"NodeID": "0" * 56, "Resources": {}}, said)

    assert found.guard_outlives_job is outlives


def test_an_actor_stays_on_its_node_where_gpus_are_undeclared():
    options = site().actor_options()

    assert options["scheduling_strategy"].node_id == "0" * 56
    assert not options["scheduling_strategy"].soft


def test_an_actor_on_a_simulated_gpu_needs_no_environment_of_its_own():
    options = site("simulated").actor_options()

    assert "runtime_env" not in options
    assert "num_gpus" not in options


def test_simulated_gpus_of_a_kind_that_is_gone_are_passed_over(tmp_path):
    """One that was made of somebody's own kind ended every later study of that user's."""
    gone = tmp_path / "SIM-mine-0"
    fleet("h200_sxm", 3, str(tmp_path))
    shutil.copytree(tmp_path / "SIM-h200_sxm-0", gone)
    (gone / "catalogue").write_text("mine")

    found = _simulate(("h200_sxm",), 1, str(tmp_path), True, (0, 1)).found

    assert [gpu.address.uuid for gpu in found] == [f"SIM-h200_sxm-{i}" for i in range(3)]
