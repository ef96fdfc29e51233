"""``joulelab export-metrics --ray``: what GPUs do, as metrics of the Ray that serves a node."""

import subprocess
from contextlib import contextmanager
from functools import partial
from urllib.request import urlopen

import pytest
import waiting
from own_cluster import ROOT, environment_of, place_made, shell, started
from prometheus_client.parser import text_string_to_metric_families

from joulelab.cli.main import main
from joulelab.devices.simulated import DriverStore, Fault

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def head():
    """A cluster of this machine whose Ray serves metrics; its folder and environment."""
    with place_made() as place, started(place, environment_of(place) | {"METRICS": "1"}) as made:
        yield made


@pytest.fixture(scope="module")
def store(head):
    """The driver of three simulated GPUs that its nodes see."""
    place, _ = head
    drivers = DriverStore(place / "gpus")
    for number in range(3):
        drivers.create("h200_sxm", number)
    return drivers


until = partial(waiting.until, interval_s=0.2)  # looks are 1.8 s apart


def command(store):
    return (
        ". cluster/env.sh; exec python -m joulelab.cli.main export-metrics --ray "
        f"--device simulated --store {store.root} --guard-socket {store.root}/none.sock"
    )


@contextmanager
def exporting(head, store):
    """Run the command, and yield its process and the address of the page that it names."""
    words = ["bash", "-c", command(store)]
    with subprocess.Popen(words, cwd=ROOT, env=head[1], stderr=subprocess.PIPE, text=True) as ours:
        try:
            first = ours.stderr.readline()
            assert ": 3 GPUs, every 1.8 s, at http" in first, first + ours.stderr.read()
            yield ours, first.split()[-1]
        finally:
            ours.terminate()


@pytest.fixture(scope="class")
def page(head, store):
    with exporting(head, store) as (_, url):
        yield url


def served(url):
    """What of ours a page of Ray's has, by name: values by the GPU's UUID."""
    with urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    return {
        family.name.removeprefix("ray_joulelab_"): {
            sample.labels.get("uuid"): sample.value for sample in family.samples
        }
        for family in text_string_to_metric_families(text)
        if family.name.startswith("ray_joulelab_")
    }


def read(url, *names):
    """Wait until the page has all of ``names``, and return what it has of them."""
    found = until(lambda: (page := served(url)).keys() >= set(names) and page)
    return tuple(found[name] for name in names)


class TestPage:
    """One exporter, whose page is looked at."""

    def test_every_gpu_has_the_readings_of_its_own_and_their_units(self, page, store):
        power_w, energy_j, clock_hz = read(
            page, "gpu_power_watts", "gpu_energy_joules_total", "gpu_sm_clock_hertz"
        )

        assert power_w.keys() == energy_j.keys() == set(store.uuids())
        assert all(60 < each < 150 for each in power_w.values())  # at rest
        assert all(each == 345e6 for each in clock_hz.values())

    def test_what_changes_on_a_gpu_shows_on_its_page_alone(self, page, store):
        first = store.uuids()[0]
        [limits] = read(page, "gpu_power_limit_watts")

        store.state(first).limit_power(450.0)

        until(lambda: served(page)["gpu_power_limit_watts"] == limits | {first: 450.0})
        store.state(first).reset()
        until(lambda: served(page)["gpu_power_limit_watts"] == limits)

    def test_a_second_exporter_of_the_cluster_is_refused(self, head, store, page):
        second = shell(command(store), head[1])

        assert second.returncode == 2
        assert "another `joulelab export-metrics --ray` does so" in second.stderr
        read(page, "gpu_power_watts")

    def test_a_sensor_that_can_be_read_no_more_is_served_no_more(self, page, store):
        """A gauge of Ray keeps its last value only as long as it is set again."""
        *others, lost = store.uuids()
        read(page, "gpu_power_watts")

        store.state(lost).inject(Fault(kind="lost"))

        until(lambda: served(page)["gpu_power_watts"].keys() == set(others))
        assert read(page, "gpu_unread")[0].keys() == {lost}


def test_an_exporter_that_has_ended_leaves_nothing_on_the_page(head, store):
    with exporting(head, store) as (process, url):
        read(url, "gpu_power_watts")
        process.terminate()
        process.wait(60)

        until(lambda: not served(url))


def test_a_cluster_without_metrics_is_told_how_to_have_them(cluster, tmp_path, capsys):
    store = DriverStore(tmp_path)
    store.create("h200_sxm", 0)

    code = main(["export-metrics", "--ray", "--device", "simulated", "--store", str(store.root)])

    assert code == 2
    assert "METRICS=1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--uuid", "GPU-a"], ["--gpu", "h200_sxm"]])
def test_it_exports_every_gpu_of_the_cluster(words, capsys):
    assert main(["export-metrics", "--ray", "--device", "simulated", *words]) == 2

    assert "leave --uuid and --gpu out" in capsys.readouterr().err
