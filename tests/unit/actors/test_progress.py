from io import StringIO

import pytest
from actor_fixtures import trial
from rich.console import Console

from joulelab_actors.events import AttemptFailed, DeviceQuarantined, TrackingDown
from joulelab_actors.progress import StudyProgress

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
