"""``joulelab calibrate --host``: this machine as a host."""

import pytest

from joulelab.cli.calibrate import Calibrate
from joulelab.errors import ConfigError
from joulelab.hardware.processors import HOSTS, TYPICAL, find_host


def test_this_machine_is_measured_and_kept(tmp_path, capsys):
    path = tmp_path / "here.toml"

    assert Calibrate(host=True, out=path).run() == 0

    here = find_host(str(path))
    assert 1e-7 < here.module_s < 1e-4
    assert "add" in capsys.readouterr().out
    ratio = here.module_s / HOSTS[TYPICAL].module_s
    wanted_s = ratio * HOSTS[TYPICAL].operator_s["linear"]
    assert here.operator_s["linear"] == pytest.approx(wanted_s, rel=1e-3)


def test_calibrating_says_what_it_takes():
    with pytest.raises(ConfigError, match="--host"):
        Calibrate().run()
    with pytest.raises(ConfigError, match="no table"):
        Calibrate(host=True, device="h200").run()
