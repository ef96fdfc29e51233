"""The metrics and the Grafana board, by Prometheus itself where it is installed."""

import json
import re
import shutil
import subprocess
import time
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from doc_pages import ROOT
from metrics_exporter import exporting

from joulelab.serving.deployment import free_port

pytestmark = pytest.mark.slow
if shutil.which("prometheus") is None or shutil.which("promtool") is None:
    pytest.skip("Prometheus is not installed (Debian: prometheus)", allow_module_level=True)

BOARD = json.loads((ROOT / "cluster/grafana_gpus.json").read_text())
WATCHING = (ROOT / "docs/how-to/watching.md").read_text()
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
VALUES = {"$hostname": ".*", "$gpu": ".*", "$__rate_interval": "1m", "$__range": "1m"}
PATIENCE_S = 120.0


def fetched(url, **headers):
    with urlopen(Request(url, headers=headers), timeout=30) as answer:
        return answer.read().decode()


def in_prometheus(expression):
    """An expression of the board with all that is chosen above it."""
    for variable, value in VALUES.items():
        expression = expression.replace(variable, value)
    return expression


class Prometheus:
    """A server that scrapes one exporter every second."""

    def __init__(self, folder, target):
        self.address = f"127.0.0.1:{free_port()}"
        self._config, self._folder = folder / "prometheus.yml", folder
        self._config.write_text(
            "scrape_configs:\n"
            "  - job_name: joulelab\n"
            "    scrape_interval: 1s\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )

    def __enter__(self):
        self._log = (self._folder / "log").open("w")
        command = ["prometheus", f"--config.file={self._config}"]
        command += [f"--storage.tsdb.path={self._folder / 'data'}"]
        command += [f"--web.listen-address={self.address}"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()

    def asked(self, expression):
        """What an expression comes to now: a number by labels."""
        query = urlencode({"query": expression})
        answer = json.loads(fetched(f"http://{self.address}/api/v1/query?{query}"))
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def until(self, expression):
        """Wait until an expression comes to something."""
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                if found := self.asked(expression):
                    return found
            except OSError:  # it is not up yet
                pass
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < give_up_s, (self._folder / "log").read_text()
            time.sleep(0.2)


@pytest.fixture(scope="module")
def exporter():
    with exporting("--device", "simulated", "--gpu", "h200_sxm") as (_, url):
        yield url


@pytest.fixture(scope="module")
def prometheus(exporter, tmp_path_factory):
    target = exporter.split("//")[1].partition("/")[0]
    with Prometheus(tmp_path_factory.mktemp("prometheus"), target) as server:
        server.until("count_over_time(joulelab_gpu_energy_joules_total[1m]) >= 2")
        yield server


def test_promtool_finds_nothing_wrong_with_what_is_exported(exporter):
    text = fetched(exporter, Accept="text/plain")

    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.parametrize("text", re.findall(r"```text\n(scrape_configs:.*?)```", WATCHING, re.S))
def test_prometheus_takes_what_the_page_says_of_scraping(tmp_path, text):
    (tmp_path / "prometheus.yml").write_text(text)

    checked = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_prometheus_has_the_values_of_the_exporter(prometheus):
    powers = prometheus.asked("joulelab_gpu_power_watts")
    mean = prometheus.asked("rate(joulelab_gpu_energy_joules_total[1m])")

    assert len(powers) == len(mean) > 0
    assert all(float(each["value"][1]) > 0 for each in powers)
    assert {each["metric"]["uuid"] for each in powers} == {each["metric"]["uuid"] for each in mean}


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda part: part[:60])
def test_prometheus_understands_every_expression_of_the_board(prometheus, expression):
    prometheus.asked(in_prometheus(expression))


def test_the_panels_of_a_gpu_that_waits_are_not_empty(prometheus):
    shown = {
        panel["title"]
        for panel in BOARD["panels"]
        if any(prometheus.asked(in_prometheus(target["expr"])) for target in panel["targets"])
    }

    assert {
        "Power",
        "Power of each GPU",
        "Energy in the time shown",
        "Mean power of each GPU, by the energy counter",
        "SM clock",
        "Temperature",
        "Utilisation",
        "GPUs",
    } <= shown
