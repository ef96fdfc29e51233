"""The live view as Prometheus reads it: over HTTP, by its client's own parser."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from fake_nvml.driver import FakeDriver, build
from guard_fakes import end_guard
from metrics_exporter import exporting
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_text
from waiting import PATIENCE_S, until

from joulelab.core.device import DeviceAddress
from joulelab.devices.simulated import DriverStore, Fault
from joulelab.guard.client import GuardClient
from joulelab.live import metrics
from joulelab.live.activity import ActivityFile, EndedTrial, Saving
from joulelab.live.reading import LiveView, Loans
from joulelab.tracking.study import StudyState, Trouble, write_state

OF_TRIALS = re.compile("joulelab_(trial|study)")
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def scrape(url, accept=OPEN_METRICS, parse=text_string_to_metric_families):
    """Samples by name; each a mapping of its labels, as a set, to its value."""
    with urlopen(Request(url, headers={"Accept": accept}), timeout=60) as answer:
        text = answer.read().decode()
    found = {}
    for family in parse(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def scraped(url, is_awaited):
    """The samples if they are those that are awaited, else ``None``."""
    samples = scrape(url)
    return samples if is_awaited(samples) else None


def only(samples, name):
    ((labels, value),) = samples[name].items()
    return dict(labels), value


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(tmp_path):
    return FakeDriver(tmp_path / "driver", None)


@pytest.fixture
def nvml(driver, library, tmp_path):
    """What makes the command see the GPUs of ``driver``, with no guard beside it."""
    environment = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STORE": str(driver.root)}
    words = ("--device", "nvml", "--guard-socket", tmp_path / "none.sock")
    return lambda: exporting(*words, **environment)


@pytest.mark.parametrize(
    ("accept", "parse"),
    [(OPEN_METRICS, text_string_to_metric_families), (CONTENT_TYPE_LATEST, parse_text)],
)
def test_every_reading_has_the_unit_of_its_name(driver, nvml, accept, parse):
    driver.add().publish(average_power_mw=412_300, event_reasons=0x4, gr_engine_active=0.875)

    with nvml() as (_, url):
        samples = scrape(url, accept, parse)

    labels, power_w = only(samples, "joulelab_gpu_power_watts")
    assert labels == {"gpu": "0", "uuid": "GPU-aa-0", "hostname": socket.gethostname()}
    values = {
        "energy_joules_total": 2180.585,
        "power_limit_watts": 700.0,
        "sm_clock_hertz": 1980e6,
        "memory_clock_hertz": 3201e6,
        "temperature_celsius": 38.0,
        "memory_used_bytes": 3_006_267_392,
        "processes": 0,
    }
    assert power_w == 412.3
    assert {name: only(samples, f"joulelab_gpu_{name}")[1] for name in values} == values
    assert 0.86 < only(samples, "joulelab_gpu_utilization_ratio")[1] < 0.89
    assert only(samples, "joulelab_gpu_info")[0]["name"] == "NVIDIA H200"
    held = {
        dict(labels)["reason"]: value for labels, value in samples["joulelab_gpu_throttled"].items()
    }
    assert [reason for reason, holds in held.items() if holds] == ["sw_power_cap"]
    assert len(held) == 8


def test_several_gpus_are_apart_by_index_and_uuid(driver, nvml):
    for index in range(3):
        driver.add(f"GPU-aa-{index}").publish(average_power_mw=100_000 * (index + 1))

    with nvml() as (_, url):
        samples = scrape(url)

    found = {
        (dict(labels)["gpu"], dict(labels)["uuid"]): value
        for labels, value in samples["joulelab_gpu_power_watts"].items()
    }
    assert found == {(str(i), f"GPU-aa-{i}"): 100.0 * (i + 1) for i in range(3)}


def test_what_cannot_be_read_is_absent_and_named(driver, nvml):
    driver.add(mig="1")

    with nvml() as (_, url):
        samples = scrape(url)

    assert "joulelab_gpu_power_watts" not in samples
    assert "joulelab_gpu_energy_joules_total" not in samples
    assert only(samples, "joulelab_gpu_sm_clock_hertz")[1] == 1980e6
    unread = {dict(labels)["sensor"] for labels in samples["joulelab_gpu_unread"]}
    assert unread == {"power_w", "energy_j"}


def test_no_value_is_older_than_two_seconds(driver, nvml):
    gpu = driver.add()

    with nvml() as (_, url):
        before_j = only(scrape(url), "joulelab_gpu_energy_joules_total")[1]
        gpu.publish(power_mw=300_000, average_power_mw=300_000)
        old_s = changed_s = time.monotonic()
        while time.monotonic() < changed_s + 4.0:
            asked_s = time.monotonic()
            gpu.publish(energy_mj=round(1e3 * (before_j + 300.0 * (asked_s - changed_s))))
            samples = scrape(url)
            if only(samples, "joulelab_gpu_power_watts")[1] != 300.0:
                old_s = asked_s
            energy_j = only(samples, "joulelab_gpu_energy_joules_total")[1] - before_j
            assert 300.0 * (asked_s - changed_s - 2.0) <= energy_j
            assert energy_j <= 300.0 * (time.monotonic() - changed_s + 1.0)

    assert old_s - changed_s < 2.0


class CountedSession:
    """GPUs that are looked at without being there."""

    def __init__(self):
        self.looks = 0

    def look(self):
        self.looks += 1
        return LiveView(gpus=(), loans=Loans(), activities={}, studies={}, core_share=None)


def test_it_looks_between_scrapes_and_no_more_once_nobody_scrapes(monkeypatch):
    monkeypatch.setattr(metrics, "PERIOD_S", 0.05)
    monkeypatch.setattr(metrics, "_LINGER_S", 0.5)
    session = CountedSession()
    collector = metrics.LiveCollector(session)
    time.sleep(0.2)
    unasked = session.looks

    list(collector.collect())

    assert unasked == 0
    until(lambda: session.looks >= 5)
    time.sleep(1.0)
    ended = session.looks
    time.sleep(0.3)
    assert session.looks == ended
    list(collector.collect())
    until(lambda: session.looks > ended + 2)


def test_scrapes_that_follow_each_other_share_a_look():
    session = CountedSession()
    collector = metrics.LiveCollector(session)

    for _ in range(5):
        list(collector.collect())

    assert session.looks == 1


def test_a_lost_gpu_leaves_no_numbers_behind(tmp_path):
    state = DriverStore(tmp_path / "driver").create("h200_sxm", 0)
    words = ("--store", tmp_path / "driver", "--guard-socket", tmp_path / "none.sock")

    with exporting("--device", "simulated", *words) as (_, url):
        before = scrape(url)
        state.inject(Fault(kind="lost"))
        left = {"joulelab_gpu_info", "joulelab_gpu_unread", "joulelab_guard_answers"}
        until(lambda: {name for name in scrape(url) if name.startswith("joulelab_")} == left)

    numbers = [name for name in before if name.startswith("joulelab_gpu_")]
    assert len(numbers) == 11


def test_a_loan_is_shown_while_it_lasts(tmp_path):
    store, folder = tmp_path / "driver", Path(tempfile.mkdtemp(prefix="live", dir="/tmp"))
    socket_path = folder / "g.sock"  # short enough for a socket
    state = DriverStore(store).create("h200_sxm", 0)
    words = ("--device", "simulated", "--store", store, "--guard-socket", socket_path)
    client = GuardClient(socket_path)
    address = DeviceAddress(backend="simulated", uuid=state.uuid, store=str(store))
    try:
        with exporting(*words) as (_, url):
            unasked = scrape(url)
            with client.lease(address, 'a "quoted" note'):
                during = until(lambda: scraped(url, lambda found: "joulelab_gpu_leased" in found))
            after = until(lambda: scraped(url, lambda found: "joulelab_gpu_leased" not in found))
    finally:
        end_guard(socket_path)
        shutil.rmtree(folder)

    labels, value = only(during, "joulelab_gpu_leased")
    assert value == 1
    assert labels["note"] == 'a "quoted" note'
    assert re.fullmatch(rf"pid {os.getpid()} of uid {os.getuid()}", labels["holder"])
    assert "joulelab_gpu_leased" not in unasked
    answers = [only(found, "joulelab_guard_answers")[1] for found in (unasked, during, after)]
    assert answers == [0, 1, 1]


@pytest.fixture
def telling(tmp_path):
    """A simulated GPU on which this process measures for a study, as its worker would tell."""
    folder = Path(tempfile.mkdtemp(prefix="live", dir="/tmp"))
    state = DriverStore(tmp_path / "driver").create("h200_sxm", 0)
    address = DeviceAddress(backend="simulated", uuid=state.uuid, store=str(tmp_path / "driver"))
    socket_path, results = folder / "g/guard.sock", tmp_path / "results"
    results.mkdir()
    with closing(ActivityFile(address, results, socket_path)) as file:
        words = ("--device", "simulated", "--store", address.store, "--guard-socket", socket_path)
        yield file, results, words
    shutil.rmtree(folder)


def test_the_trial_and_the_energy_of_the_last_one_are_shown(telling):
    file, results, words = telling
    last = EndedTrial(trial="990MHz-r0", energy_j=5e3, energy_per_unit_j=0.25, unit="token")
    saving = Saving(point="990MHz", energy_ratio=0.7, time_ratio=1.1)
    file.tell(
        replace(
            file.activity,
            study='a "sweep"',
            trial="810MHz-r0",
            since_unix_s=1.75e9,
            num_measured=3,
            last=last,
            saving=saving,
        )
    )
    failed = (Trouble(what="705MHz-r0", detail="it died"),)
    write_state(
        results,
        StudyState(
            study='a "sweep"',
            num_trials=90,
            num_done=37,
            since_unix_s=0.0,
            updated_unix_s=0.0,
            failed=failed,
        ),
    )

    with exporting(*words) as (_, url):
        samples = scrape(url)
        file.tell(replace(file.activity, trial=None, last=EndedTrial(trial="x", reason="lost: it")))
        between = until(lambda: scraped(url, lambda found: "joulelab_trial_invalid" in found))
        file.close()
        until(lambda: scraped(url, lambda found: not any(map(OF_TRIALS.match, found))))

    labels, _ = only(samples, "joulelab_trial_info")
    assert (labels["study"], labels["trial"], labels["gpu"]) == ('a "sweep"', "810MHz-r0", "0")
    values = {
        "trial_start_timestamp_seconds": 1.75e9,
        "trials_ended_total": 3,
        "trial_energy_joules": 5e3,
        "trial_unit_energy_joules": 0.25,
        "study_trials": 90,
        "study_trials_done": 37,
        "study_trials_failed": 1,
    }
    assert {name: only(samples, f"joulelab_{name}")[1] for name in values} == values
    assert only(samples, "joulelab_trial_unit_energy_joules")[0]["unit"] == "token"
    saved_labels, saved = only(samples, "joulelab_trial_energy_saved_ratio")
    assert (saved_labels["point"], saved) == ("990MHz", pytest.approx(0.3))
    assert only(samples, "joulelab_trial_time_added_ratio")[1] == pytest.approx(0.1)
    assert only(between, "joulelab_trial_invalid")[0]["reason"] == "lost"
    gone = {"joulelab_trial_info", "joulelab_trial_energy_joules"}
    assert gone.isdisjoint(between)


def test_ctrl_c_ends_it_while_a_client_is_connected(driver, nvml):
    driver.add()

    with nvml() as (process, url):
        port = int(url.split(":")[-1].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            process.send_signal(signal.SIGINT)
            code = process.wait(PATIENCE_S)

    assert code == 130


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["export-metrics", "--device", "simulated", "--store", tmp_path / "driver"]
        done = subprocess.run(
            [sys.executable, "-m", "joulelab.cli.main", *words, "--port", port],
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert f"got 127.0.0.1 and {port}: Address already in use" in done.stderr
