import time

import pytest
from guard_fakes import FakeDriver

from joulelab.core.device import DeviceAddress
from joulelab.core.point import OperatingPoint
from joulelab.devices.control import verify_restored
from joulelab.errors import (
    ConfigError,
    DeviceError,
    DeviceLostError,
    DevicePermissionError,
    ForeignSettingError,
)
from joulelab.guard.journal import Journal
from joulelab.guard.kept_device import KeptDevice

ADDRESS = DeviceAddress(backend="fake", uuid="GPU-a")
POINT = OperatingPoint(sm_clock_mhz=1095, power_limit_w=350.0)
DEFAULT = OperatingPoint()


@pytest.fixture(
    params=[
        {"tells_locks": True},
        {"tells_locks": False},
        {"tells_locks": False, "reset_spares_limit": True},
    ],
    ids=["tells-locks", "hides-locks", "spares-limit"],
)
def driver(request):
    return FakeDriver(**request.param)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path)


@pytest.fixture
def kept(driver, journal):
    return KeptDevice(ADDRESS, journal=journal, open_device=driver.open)


def apply(kept, point=POINT):
    return kept.apply(point, pid=1, uid=2)


def test_the_receipt_says_what_was_found_on_reading_back(kept, driver):
    receipt = apply(kept)

    assert receipt.requested == POINT
    assert (receipt.sm_clock_mhz, receipt.power_limit_w) == (1095, 350.0)
    assert receipt.held == (POINT if driver.tells_locks else None)


def test_the_journal_is_written_before_the_device(kept, driver, journal):
    journal.path_of(ADDRESS).mkdir()  # so that it cannot be written

    with pytest.raises(IsADirectoryError):
        apply(kept)

    assert driver.calls == []
    assert not kept.is_set


def test_restoring_gives_back_the_default_and_closes_the_account(kept, driver, journal):
    apply(kept)

    assert kept.restore("test")

    assert driver.point() == DEFAULT
    assert journal.owed() == ()


def test_a_power_limit_that_was_there_before_is_there_again(kept, driver):
    driver.points["GPU-a"] = OperatingPoint(power_limit_w=500.0)
    apply(kept)
    apply(kept, OperatingPoint(power_limit_w=250.0))

    assert kept.restore("test")

    assert driver.point() == OperatingPoint(power_limit_w=500.0)


def test_what_a_point_leaves_open_is_at_its_default(kept, driver):
    apply(kept)

    apply(kept, OperatingPoint(sm_clock_mhz=1200))

    assert driver.point() == OperatingPoint(sm_clock_mhz=1200)


def test_a_lock_that_was_not_asked_for_is_undone_before_a_point_is_set(kept, driver):
    driver.points["GPU-a"] = OperatingPoint(mem_clock_mhz=3201)

    receipt = apply(kept, OperatingPoint(sm_clock_mhz=1095))

    assert driver.point() == OperatingPoint(sm_clock_mhz=1095)
    assert receipt.locks_known


def test_a_default_point_undoes_a_lock_that_the_driver_does_not_tell(driver, journal, kept):
    driver.points["GPU-a"] = OperatingPoint(sm_clock_mhz=600)

    receipt = apply(kept, DEFAULT)

    assert driver.point() == DEFAULT
    assert (receipt.requested, receipt.locks_known) == (DEFAULT, True)


def test_a_default_point_without_permission_is_only_looked_at(journal):
    driver = FakeDriver(tells_locks=False, faults={"denied"})
    kept = KeptDevice(ADDRESS, journal=journal, open_device=driver.open)

    assert not apply(kept, DEFAULT).locks_known
    assert journal.owed() == ()


def test_a_lock_that_may_not_be_undone_is_refused(journal):
    driver = FakeDriver(faults={"denied"}, points={"GPU-a": OperatingPoint(sm_clock_mhz=600)})
    kept = KeptDevice(ADDRESS, journal=journal, open_device=driver.open)

    with pytest.raises(ForeignSettingError, match="600MHz"):
        apply(kept, DEFAULT)

    assert journal.owed() == ()


@pytest.mark.parametrize("point", [DEFAULT, OperatingPoint(sm_clock_mhz=1095)])
def test_a_power_limit_that_somebody_chose_is_not_raised_unasked(kept, driver, point):
    """It may be what the site's supply bears; nor is it measured under as if it were nothing."""
    driver.points["GPU-a"] = OperatingPoint(power_limit_w=500.0)

    with pytest.raises(ForeignSettingError, match="default power limit of 700 W, but is at 500 W"):
        apply(kept, point)

    assert driver.calls == []


def test_a_power_limit_that_is_in_force_can_be_asked_for_by_name(kept, driver):
    driver.points["GPU-a"] = OperatingPoint(power_limit_w=500.0)

    assert apply(kept, OperatingPoint(power_limit_w=500.0)).power_limit_w == 500.0


def test_a_lock_that_was_there_before_is_there_again_if_the_driver_tells(journal):
    driver = FakeDriver(points={"GPU-a": OperatingPoint(sm_clock_mhz=1500)})
    kept = KeptDevice(ADDRESS, journal=journal, open_device=driver.open)
    apply(kept)

    assert kept.restore("test")

    assert driver.point() == OperatingPoint(sm_clock_mhz=1500)


@pytest.mark.parametrize("limit_w", [None, 500.0])
def test_a_second_guard_restores_from_the_journal_of_the_first(kept, driver, journal, limit_w):
    driver.points["GPU-a"] = OperatingPoint(power_limit_w=limit_w)
    apply(kept, OperatingPoint(power_limit_w=300.0))
    apply(kept, OperatingPoint(sm_clock_mhz=1095, power_limit_w=350.0))
    (owed,) = journal.owed()
    successor = KeptDevice(ADDRESS, journal=journal, open_device=driver.open, owed=owed)

    assert successor.restore("guard restarted")

    assert driver.point().sm_clock_mhz is None
    assert (driver.point().power_limit_w or 700.0) == (limit_w or 700.0)
    assert journal.owed() == ()


def test_a_limit_is_still_owed_when_the_guard_dies_on_the_way_to_a_point_without_one(
    kept, driver, journal
):
    apply(kept, OperatingPoint(power_limit_w=300.0))
    driver.faults = {"lost"}
    with pytest.raises(DeviceLostError):
        apply(kept, OperatingPoint(sm_clock_mhz=1095))
    driver.faults = set()
    (owed,) = journal.owed()

    successor = KeptDevice(ADDRESS, journal=journal, open_device=driver.open, owed=owed)
    assert successor.restore("guard restarted")

    assert driver.point() == DEFAULT


def test_a_power_limit_that_the_guard_did_not_turn_is_left_alone(kept, driver):
    apply(kept, OperatingPoint(sm_clock_mhz=1095))
    driver.points["GPU-a"] = OperatingPoint(sm_clock_mhz=1095, power_limit_w=450.0)

    assert kept.restore("test")

    assert driver.point() == OperatingPoint(power_limit_w=450.0)


def test_nothing_is_reset_that_was_never_set(kept, driver):
    kept.open()

    assert kept.restore("test")

    assert driver.calls == []


def test_a_clock_off_the_grid_leaves_nothing_owed(kept, driver, journal):
    with pytest.raises(ConfigError, match="1095 and 1110"):
        apply(kept, OperatingPoint(sm_clock_mhz=1100))

    assert not kept.is_set
    assert journal.owed() == ()
    assert driver.calls == []


def test_a_clock_off_the_grid_leaves_the_point_before_it_in_force_and_owed(kept, driver):
    apply(kept)

    with pytest.raises(ConfigError):
        apply(kept, OperatingPoint(sm_clock_mhz=1100))

    assert kept.is_set
    assert driver.point() == POINT


def test_a_refused_permission_leaves_nothing_owed(kept, driver, journal):
    driver.faults = {"denied"}

    with pytest.raises(DevicePermissionError, match="CAP_SYS_ADMIN"):
        apply(kept)

    assert not kept.is_set
    assert journal.owed() == ()


def test_a_setter_that_does_nothing_is_found_out(kept, driver):
    driver.faults = {"stuck"}

    with pytest.raises(ForeignSettingError, match="power limit is 700 W"):
        apply(kept)

    assert kept.is_set == (not driver.tells_locks), "what the driver does not tell is owed"


@pytest.mark.parametrize("fault", ["lost", "denied", "stuck", "broken"])
def test_a_failed_restore_stays_owed_and_is_due_again(kept, driver, journal, fault):
    apply(kept)
    driver.faults = {fault}

    before_s = time.monotonic()
    assert not kept.restore("test")
    assert not kept.restore("test")

    assert kept.is_set
    assert len(journal.owed()) == 1
    assert kept.pending.attempts == 2
    assert kept.pending.error
    assert before_s < kept.due_s < time.monotonic() + 1


def test_each_error_of_a_restore_is_logged_once_however_often_it_is_tried(kept, driver, caplog):
    apply(kept)
    for fault in ("lost", "lost", "lost", "denied"):
        driver.faults = {fault}
        kept.restore("test")

    assert len(caplog.messages) == 2
    assert "lost" in caplog.messages[0]
    assert "CAP_SYS_ADMIN" in caplog.messages[1]


def test_a_failed_restore_succeeds_once_the_fault_is_gone(kept, driver, journal):
    apply(kept)
    driver.faults = {"lost"}
    kept.restore("test")
    driver.faults = set()

    assert kept.restore("tried again")

    assert driver.point() == DEFAULT
    assert driver.opened == 2, "a handle on a lost device is not used again"
    assert journal.owed() == ()


def test_waits_between_tries_grow_to_ten_seconds(kept, driver):
    apply(kept)
    driver.faults = {"lost"}
    for wait_s in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0):
        before_s = time.monotonic()
        kept.restore("test")
        after_s = time.monotonic()

        assert before_s + wait_s <= kept.due_s <= after_s + wait_s


def test_a_point_that_is_set_anew_is_no_longer_due(kept, driver):
    apply(kept)
    driver.faults = {"denied"}
    kept.restore("test")
    driver.faults = set()

    apply(kept)

    assert kept.due_s is None
    assert kept.is_set


@pytest.mark.parametrize(
    "left", [OperatingPoint(sm_clock_mhz=1095), OperatingPoint(mem_clock_mhz=3201)]
)
def test_a_lock_that_is_left_of_either_clock_is_no_restore(left):
    driver = FakeDriver(points={"GPU-a": left})

    with pytest.raises(DeviceError, match="should be back at default"):
        verify_restored(driver.open(ADDRESS), DEFAULT)
