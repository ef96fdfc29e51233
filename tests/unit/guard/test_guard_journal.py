import json
import os

import pytest
from full_disk import full_beyond
from hypothesis import given, settings
from hypothesis import strategies as st

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.guard import journal as journal_module
from joulelab.guard.journal import Journal

A = DeviceAddress(backend="nvml", uuid="GPU-a")
B = DeviceAddress(backend="simulated", uuid="SIM-b", store="/somewhere")
DEFAULT = OperatingPoint()
POINT = OperatingPoint(sm_clock_mhz=1095, power_limit_w=350.0)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path)


def set_point(journal, address=A, prior=DEFAULT):
    journal.write("set", address, detail="test", prior=prior, requested=POINT, pid=7, uid=8)


def restore(journal, address=A):
    journal.write("restored", address, detail="test", prior=DEFAULT)


def test_a_set_line_is_outstanding_until_its_device_is_restored(journal):
    set_point(journal, A)
    set_point(journal, B)
    restore(journal, A)

    (left,) = journal.owed()

    assert left.address == B
    assert left.requested == POINT
    assert (left.pid, left.uid) == (7, 8)


def test_the_prior_point_survives_the_journal(journal):
    prior = OperatingPoint(power_limit_w=500.0)

    set_point(journal, prior=prior)

    assert journal.owed()[0].prior == prior


@settings(deadline=None)  # it writes to disk
@given(kept=st.integers(min_value=0, max_value=10_000))
def test_a_torn_last_line_is_cut_off_and_the_line_before_it_holds(tmp_path_factory, kept):
    journal = Journal(tmp_path_factory.mktemp("journal"))
    set_point(journal)
    path = journal.path_of(A)
    whole = path.read_bytes()
    restore(journal)
    torn = path.read_bytes()[len(whole) : -1]
    path.write_bytes(whole + torn[: kept % len(torn)])

    (left,) = journal.owed()
    journal.mend()

    assert left.requested == POINT
    assert path.read_bytes() == whole
    assert journal.owed() == (left,)


def test_writing_goes_on_after_a_torn_line(journal):
    set_point(journal)
    with journal.path_of(A).open("ab") as file:
        file.write(b'{"event":"resto')

    journal.mend()
    restore(journal)

    assert journal.owed() == ()
    assert all(json.loads(line) for line in journal.path_of(A).read_text().splitlines())


def test_a_garbled_line_does_not_hide_the_line_before_it(journal):
    set_point(journal)
    with journal.path_of(A).open("ab") as file:
        file.write(b"\x00\x00\xff\n[1]\n{}\n")

    assert len(journal.owed()) == 1


def test_hardware_forgets_its_locks_when_the_machine_boots_and_files_do_not(journal, tmp_path):
    set_point(journal, A)
    set_point(journal, B)
    for address in (A, B):
        path = journal.path_of(address)
        path.write_text(path.read_text().replace(journal_module.boot_id(), "an-earlier-boot"))

    assert [entry.address for entry in journal.owed()] == [B]


def test_backends_of_one_device_share_its_file_and_stores_do_not(journal):
    by_smi = DeviceAddress(backend="smi", uuid="GPU-a")
    elsewhere = DeviceAddress(backend="simulated", uuid="SIM-b", store="/elsewhere")

    assert journal.path_of(A) == journal.path_of(by_smi)
    assert journal.path_of(B) != journal.path_of(elsewhere)


def test_a_uuid_cannot_lead_out_of_the_folder(journal, tmp_path):
    address = DeviceAddress(backend="nvml", uuid="../../etc/passwd")

    assert journal.path_of(address).resolve().parent == tmp_path.resolve()


def test_a_long_journal_is_put_aside_only_when_nothing_is_set(journal, monkeypatch):
    monkeypatch.setattr(journal_module, "_ROTATE_B", 600)
    path = journal.path_of(A)
    for _ in range(5):
        set_point(journal)
    assert len(path.read_text().splitlines()) == 5

    monkeypatch.setattr(journal_module, "_ROTATE_B", path.stat().st_size)
    restore(journal)

    assert not path.exists()
    assert len(path.with_suffix(".old").read_text().splitlines()) == 6
    assert journal.owed() == ()


def test_every_line_is_on_disk_before_the_call_returns(journal, synced):
    """A clock that is set before its line is safe would stay locked after a power cut."""
    path = journal.path_of(A)

    for write in (set_point, set_point, restore):
        write(journal)

        assert synced[-1] == (path, path.stat().st_size)


def test_a_line_that_the_disk_has_no_room_for_is_refused_and_leaves_nothing(journal):
    set_point(journal)
    path = journal.path_of(A)
    before = path.read_bytes()

    with full_beyond(len(before) + 20), pytest.raises(OSError, match="only 20 of"):
        restore(journal)

    assert path.read_bytes() == before
    assert len(journal.owed()) == 1


def test_of_many_devices_the_oldest_are_forgotten_unless_something_is_owed_to_them(
    journal, tmp_path, monkeypatch
):
    monkeypatch.setattr(journal_module, "_MOST_FILES", 2)
    devices = [DeviceAddress(backend="simulated", uuid=f"SIM-{i}", store="/s") for i in range(5)]
    for age_s, address in enumerate(reversed(devices)):
        set_point(journal, address)
        if address is not devices[0]:
            restore(journal, address)
        os.utime(journal.path_of(address), (1e9 - age_s, 1e9 - age_s))

    journal.mend()

    assert set(tmp_path.iterdir()) == {journal.path_of(devices[i]) for i in (0, 3, 4)}
