from io import StringIO

import pytest
from actor_fixtures import trial
from rich.console import Console
from waiting import until

from joulelab.study.events import AttemptFailed, Delivering, DeviceQuarantined, TrackingDown
from joulelab.study.progress import StudyProgress, announced

HOSTILE = "[/red] \x1b[2J[bold]two\nlines\x07"
EVENTS = (
    AttemptFailed(uuid="GPU-1", trial=trial(), detail=HOSTILE, retried=True, died=False),
    DeviceQuarantined(uuid="GPU-1", detail=HOSTILE),
    TrackingDown(detail=HOSTILE),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_others_said_is_shown_as_it_is_and_moves_no_cursor(event):
    """A bracket in the text of an error ended the study with a MarkupError."""
    console = Console(file=StringIO(), width=200)

    with StudyProgress(console) as progress:
        progress(event)

    said = console.file.getvalue()
    assert "[/red] \\x1b[2J[bold]two lines\\x07" in said
    assert "\x1b" not in said


def test_a_log_says_once_that_mlflow_is_being_told():
    console = Console(file=StringIO(), width=200)

    with StudyProgress(console) as progress:
        for num_left in (0, 300, 200, 100):
            progress(Delivering(num_left=num_left))

    assert "lacks 0 measurements" not in console.file.getvalue()
    assert console.file.getvalue().count("MLflow still lacks 300 measurements") == 1
    assert "200" not in console.file.getvalue()


def test_a_terminal_shows_how_many_measurements_mlflow_has_yet_to_get():
    """The bar stood at 367/367 for minutes."""
    console = Console(file=StringIO(), width=200, force_terminal=True)

    with StudyProgress(console) as progress:
        for num_left in (300, 200):
            progress(Delivering(num_left=num_left))

    assert "MLflow still lacks 200 measurements" in console.file.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_takes_some_seconds_is_said_before_it_is_done(is_terminal):
    """Nothing was shown for the first 25 s of a study."""
    console = Console(file=StringIO(), width=200, force_terminal=is_terminal)

    with announced("Starting Ray", console):
        until(lambda: "Starting Ray" in console.file.getvalue())  # a thread draws to a terminal
