"""What went wrong in a background callback, told to whoever reads its results."""

from joulelab.errors import DeviceLostError, MeasurementError


def raise_kept(error: Exception | None, what: str) -> None:
    """Raise the error that a callback kept, if it kept one.

    Args:
        error: What it kept.
        what: What did not work, to stand before the reason.

    Raises:
        DeviceLostError: If the device has gone.
        MeasurementError: If anything else failed.
    """
    if isinstance(error, DeviceLostError):
        raise error
    if error is not None:
        raise MeasurementError(f"{what}: {error}") from error
