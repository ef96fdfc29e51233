"""GPUs of the user's own: files in a folder, read beside the package's, or refused."""

import math

import pytest

from joulelab.devices.simulated import fleet
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.pricing.predict import confidence_of
from joulelab.hardware import GPUS, spec_for
from joulelab.hardware.catalogue import figures_in
from joulelab.hardware.places import user_folder
from joulelab.hardware.processors import PROCESSORS

SMALL = """
like = "a40"
[identity]
product_names = { value = ["NVIDIA A40 half"], status = "U", source = "stated by the user" }
architecture = { value = "Ampere", status = "U", source = "stated by the user" }
[units]
sm_count = { value = 42, status = "U", source = "stated by the user" }
"""


def stated(value):
    return f'{{ value = {value}, status = "U", source = "stated by the user" }}'


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("JOULELAB_HARDWARE", str(tmp_path))
    return tmp_path


def write(folder, text, key="half_a40"):
    path = folder / f"{key}.toml"
    path.write_text(text)
    return path


def test_a_gpu_of_the_users_is_in_every_catalogue_and_its_name_is_known(folder):
    write(folder, SMALL)

    assert "half_a40" in set(GPUS)
    assert "half_a40" in set(PROCESSORS)
    assert spec_for("NVIDIA A40 half") is GPUS["half_a40"]
    assert GPUS["half_a40"].power.sm_w_per_ghz == GPUS["a40"].power.sm_w_per_ghz / 2
    assert PROCESSORS["half_a40"].num_cores == 42


def test_a_gpu_of_the_users_is_simulated(folder, tmp_path):
    write(folder, SMALL)

    (address,) = fleet("half_a40", 1, str(tmp_path / "store"))

    assert address.uuid == "SIM-half_a40-0"


def test_what_the_other_gpu_was_calibrated_to_does_not_pass_on(folder):
    write(folder, SMALL)

    assert GPUS["a40"].chip.tier == "B"
    assert confidence_of(PROCESSORS["half_a40"]).tier == "C"


def test_a_calibrated_figure_gives_way_to_the_users_own(folder):
    own = f"[memory]\nl2_b = {stated(10e6)}\n[power]\nsm_w_per_ghz = {stated(7.0)}\n"
    write(folder, SMALL.replace("a40", "h200_sxm") + own)

    processor = PROCESSORS["half_a40"]

    assert processor.last_cache.size_b == 10e6
    assert "calibrated.power.busy_w_per_ghz" not in processor.figures


def test_a_file_that_changes_is_read_anew(folder):
    path = write(folder, SMALL)
    before = GPUS["half_a40"].sm_count
    path.write_text(SMALL.replace("42", "21") + "\n")

    assert (before, GPUS["half_a40"].sm_count) == (42, 21)


def test_a_file_may_be_like_another_of_the_users(folder):
    write(folder, SMALL)
    write(folder, SMALL.replace('"a40"', '"half_a40"').replace("A40 half", "other"), "other")

    assert GPUS["other"].power.sm_w_per_ghz == GPUS["half_a40"].power.sm_w_per_ghz


def test_files_that_are_like_each_other_are_refused(folder):
    path = write(folder, SMALL.replace('"a40"', '"half_a40"'))

    with pytest.raises(ConfigError, match="like must name another GPU") as error:
        GPUS["half_a40"]
    assert str(path) in str(error.value)


@pytest.mark.parametrize("key", ["a100_sxm", "xeon_8490h"])
def test_a_key_of_the_package_is_refused_with_both_places(folder, key):
    path = write(folder, SMALL, key)

    with pytest.raises(ConfigError, match="the package has") as error:
        set(GPUS)
    assert str(path) in str(error.value)
    assert f"joulelab/hardware/{'cpus' if 'xeon' in key else 'gpus'}/{key}.toml" in str(error.value)


@pytest.mark.parametrize(("key", "reason"), [("a100", "short for"), ("My Board", "small letters")])
def test_a_key_that_is_an_alias_or_none_is_refused(folder, key, reason):
    write(folder, SMALL, key)

    with pytest.raises(ConfigError, match=reason):
        set(GPUS)


def test_a_product_name_of_another_gpu_is_refused_with_both_places(folder):
    write(folder, SMALL.replace("NVIDIA A40 half", "NVIDIA A40"))

    with pytest.raises(ConfigError, match=r"gpus/a40\.toml and .*half_a40\.toml"):
        spec_for("NVIDIA A40")


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (f"[limits]\nmin_w = {stated(-1.0)}", "limits.min_w must be positive, got -1."),
        (f"[power]\nidle_w = {stated('nan')}", "power.idle_w must be a number, got nan."),
        (f"[power]\nidle_w = {stated(-2)}", "power.idle_w must be at least 0, got -2."),
        (f"[memory]\nsize_b = {stated(0)}", "memory.size_b must be positive, got 0."),
        (f"[power]\nidel_w = {stated(1)}", "power.idel_w is no figure. Did you mean idle_w?"),
        (f"[pwoer]\nidle_w = {stated(1)}", "pwoer is no section. Did you mean power?"),
        (f"[limits]\ndefault_w = {stated(400)}", "limits.default_w <= limits.max_w is required"),
        ("[limits]\nmax_w = 300", "limits.max_w must be { value = ..., status = ..., source"),
        (f"[clocks]\nmem_mhz = {stated('[-1]')}", "clocks.mem_mhz must be a list of positive"),
        (f"[timing]\nmemory_efficiency = {stated(1.1)}", "memory_efficiency must be at most 1"),
    ],
)
def test_a_figure_that_cannot_be_is_named_with_its_file(folder, section, reason):
    path = write(folder, f"{SMALL}\n{section}\n")

    with pytest.raises(ConfigError) as error:
        GPUS["half_a40"]

    assert reason in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_every_figure_that_is_missing_is_named_at_once(folder):
    write(folder, SMALL.replace('like = "a40"', ""))

    with pytest.raises(ConfigError) as error:
        GPUS["half_a40"]

    for name in ("clocks.mem_mhz", "power.idle_w", "limits.max_w", "sensor.energy_tick_s"):
        assert f"{name} is missing" in str(error.value)


def test_a_file_that_is_no_toml_is_refused_by_name(folder):
    path = write(folder, "like = ")

    with pytest.raises(ConfigError, match="A readable TOML file is required") as error:
        GPUS["half_a40"]
    assert str(path) in str(error.value)


def test_a_machine_without_the_folder_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setenv("JOULELAB_HARDWARE", str(tmp_path / "none"))

    with pytest.raises(UnknownNameError, match=r"none of .*, which is not there"):
        GPUS["half_a40"]


def test_the_folder_is_in_the_users_configuration(monkeypatch, tmp_path):
    monkeypatch.delenv("JOULELAB_HARDWARE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    assert user_folder() == tmp_path / "joulelab/hardware"


def test_clocks_in_uneven_steps_are_kept_as_listed(folder):
    text = f"[clocks]\nsm_mhz = {stated('[1740, 1000, 210]')}\n"
    write(folder, SMALL + text)

    assert GPUS["half_a40"].sm_clocks_mhz == (1740, 1000, 210)


def test_a_figure_of_any_data_file_that_is_nan_is_refused():
    section = {"power": {"idle_w": {"value": math.nan, "status": "S", "source": "a data sheet"}}}

    with pytest.raises(ConfigError, match="idle_w must be a number, got NaN"):
        dict(figures_in(section))
