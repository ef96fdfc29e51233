from pathlib import Path

import pytest
from mount_tables import mounted
from synthetic_results import header

import joulelab
from joulelab.errors import ConfigError, JouleLabError
from joulelab.study.ledger import StudySummary
from joulelab.tracking.delivery import DeliveryReport
from joulelab.tracking.store import ResultStore
from joulelab_actors import laboratory
from joulelab_actors.laboratory import Laboratory

ALL = {"sm_clock_mhz": "all"}


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """Whatever is refused here is refused before Ray starts."""

    def connected(**options):
        raise AssertionError("Ray was about to start.")

    monkeypatch.setattr(laboratory, "connected", connected)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def summary(error=None, num_delivered=3):
    report = DeliveryReport(
        target="http://***@host", num_delivered=num_delivered, num_left=1, error=error
    )
    return StudySummary(
        study="sweep", num_trials=4, num_skipped=0, num_valid=4, num_invalid=0, num_retries=0,
        failed={}, unfinished=(), quarantined={}, interrupted=False, between_s=None,
        delivery=report, wall_s=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "../x",
        "../../x",
        "/tmp/x",
        "a/b",
        ".x",
        "-x",
        "",
        "a b",
        "a\nb",
        "\x1b[2J",
        "x" * 152,
    ],
)
def test_a_study_whose_name_is_no_file_name_is_refused(name):
    """``--study ..`` and four others wrote outside of the results folder."""
    with pytest.raises(ConfigError, match="study must be 1 to 151 letters"):
        Laboratory(study=name)


@pytest.mark.parametrize("num_gpus", [0, -1, 1025, 10**12])
def test_no_number_of_gpus_is_tried_that_can_be_none(num_gpus):
    with pytest.raises(ConfigError, match="num_gpus must be within 1 and 1024"):
        Laboratory(num_gpus=num_gpus)


@pytest.mark.parametrize(
    "wrong",
    [
        {"results_dir": Path("file")},
        {"results_dir": Path("file/below")},
        {"results_dir": Path("x" * 300)},
        {"results_dir": Path("a\0b")},
        {"store": Path("file")},
        {"gpu": "h9000"},
        {"device": "replay"},
        {"device": "replay", "store": Path("file")},
        {"tracking_uri": "http://"},
        {"tracking_uri": "http://***@host"},
        {"tracking_uri": "sqlite:////proc/no/mlflow.db"},
        {"guard_socket": Path("relative.sock")},
        {"guard_socket": Path(f"/tmp/{'x' * 120}")},
        {"guard_socket": Path("/no/such/parent/g.sock")},
    ],
    ids=repr,
)
def test_what_cannot_be_used_is_refused_before_ray_starts_and_nothing_is_left(
    wrong, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(JouleLabError),
        Laboratory(**{"results_dir": tmp_path / "results", "study": "sweep"} | wrong).open(),
    ):
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("study", "complaint"),
    [
        (lambda lab: joulelab.measure(lambda: None, lab=lab), "name it as FILE.py:NAME"),
        (lambda lab: joulelab.sweep(lambda: None, lab=lab), "name it as FILE.py:NAME"),
        (lambda lab: joulelab.search(lambda: None, ALL, lab=lab), "name it as FILE.py:NAME"),
        (lambda lab: joulelab.sweep("gemm", every=0, lab=lab), "every must be at least 1"),
        (lambda lab: joulelab.search("gemm", ALL, seed=-1, lab=lab), "seed must be within 0"),
        (lambda lab: joulelab.search("gemm", ALL, strategy="tp", lab=lab), "Did you mean 'tpe'"),
        (lambda lab: joulelab.search("gemm", {"n": [0, 1]}, lab=lab), "n must be"),
    ],
)
def test_what_no_cluster_could_carry_out_is_refused_before_ray_starts(study, complaint, tmp_path):
    with pytest.raises(ConfigError, match=complaint):
        study(Laboratory(results_dir=tmp_path / "results"))

    assert list(tmp_path.iterdir()) == []


def test_a_study_is_taken_before_ray_starts_and_let_go_if_it_does_not(tmp_path):
    with (
        pytest.raises(AssertionError, match="Ray"),
        Laboratory(results_dir=tmp_path / "results", study="sweep").open(),
    ):
        pass

    assert list(tmp_path.iterdir()) == []


def test_a_study_that_went_to_a_store_with_a_password_is_not_continued_elsewhere(tmp_path):
    lab = Laboratory(results_dir=tmp_path, study="sweep")
    ResultStore(lab.study_dir("sweep")).write_study(header(tracking_uri="http://ann:pw@host"))

    with pytest.raises(ConfigError, match="give the whole address again"), lab.open():
        pass


def test_runs_that_mlflow_has_are_said_to_be_there_without_the_password(tmp_path):
    lab = Laboratory(results_dir=tmp_path, tracking_uri="http://ann:hunter2@host")

    assert lab.where_tracked(summary()) == "All runs in MLflow: http://***@host"


def test_a_store_that_lacks_some_of_a_study_is_not_said_to_have_all_runs(tmp_path):
    """Whatever MLflow had got, the last line said that all runs were there.

    Later it said that MLflow had nothing, where what an earlier run of the study had measured was
    there, and to wait for an answer, where a deleted experiment was what MLflow answered.
    """
    lab = Laboratory(results_dir=tmp_path, tracking_uri="http://ann:hunter2@host")

    told = lab.where_tracked(summary("It does not answer.", num_delivered=0))

    assert told == (
        "MLflow has not got all of this study: 1 of its measurements left to deliver: "
        f"It does not answer. Once it takes them: joulelab sync {tmp_path}/sweep "
        "--tracking-uri URI, with its password"
    )


def test_results_on_a_file_system_of_several_machines_have_no_sqlite_beside_them(
    tmp_path, monkeypatch
):
    """Homes of clusters are on NFS, and results are in homes by default."""
    shared = mounted(tmp_path / "home", "nfs4", "rw", tmp_path / "proc", monkeypatch)

    assert Laboratory(results_dir=shared).store_uri is None
    assert Laboratory(results_dir=tmp_path).store_uri == f"sqlite:///{tmp_path}/mlflow.db"
    with (
        pytest.raises(ConfigError, match="is on nfs4, where it may break"),
        Laboratory(results_dir=shared, tracking_uri=f"sqlite:///{shared}/x.db").open(),
    ):
        pass
