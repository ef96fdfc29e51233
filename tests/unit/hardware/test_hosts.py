"""Hosts: what they change, what they leave, and their files."""

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.hardware.processors import (
    FASTEST,
    HOSTS,
    PROCESSORS,
    SLOWEST,
    TYPICAL,
    find_host,
    host_file,
    on_host,
)

H200 = PROCESSORS["h200_sxm"]


@pytest.mark.parametrize("call", ["add", "linear", "layer_norm", "conv2d", "attention", "view"])
def test_the_typical_host_is_between_the_others(call):
    fast, typical, slow = (HOSTS[name].operator_s[call] for name in (FASTEST, TYPICAL, SLOWEST))

    assert fast < typical < slow


def test_a_host_changes_launches_alone():
    slow = on_host(H200, HOSTS[SLOWEST])

    assert slow.timing.launch_s("gemm") > H200.timing.launch_s("gemm")
    assert slow.timing.kind_efficiency == H200.timing.kind_efficiency
    assert (slow.power, slow.levels) == (H200.power, H200.levels)


@pytest.mark.parametrize("name", ["jetson_orin_agx", "tpu_v4", "xeon_8490h"])
def test_what_has_no_other_host_keeps_its_own(name):
    assert on_host(PROCESSORS[name], HOSTS[SLOWEST]) is PROCESSORS[name]


def test_a_host_is_found_again_in_its_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(host_file(HOSTS[SLOWEST]))

    found = find_host(str(path))

    assert found.key == "mine"
    assert found.operator_s == pytest.approx(dict(HOSTS[SLOWEST].operator_s), rel=1e-3)
    assert found.module_s == pytest.approx(HOSTS[SLOWEST].module_s, rel=1e-3)


def test_an_unknown_host_is_refused_with_those_there_are(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("[operator_s]\nadd = 3\n")

    with pytest.raises(UnknownNameError, match="fast"):
        find_host("fasst")
    with pytest.raises(ConfigError, match="calibrate --host"):
        find_host(str(tmp_path / "absent.toml"))
    with pytest.raises(ConfigError, match="calibrate --host"):
        find_host(str(broken))
