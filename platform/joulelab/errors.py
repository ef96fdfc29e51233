"""Every error the package raises on purpose.

* JouleLabError
  + ConfigError               the request cannot be carried out as written (also ValueError)
    - UnknownNameError        a registry has no such entry
    - UserCodeError           a file of the user's failed; the message has its own lines
    - NotAllowedError         the policy of the clock guard forbids an operating point
  + DeviceError               a device refused or failed
    - DeviceNotFoundError
    - DeviceLostError         the device fell off the bus or its driver went away
    - DevicePermissionError   no right to set clocks or power limits
    - DeviceUnsupportedError  this device has no such sensor or control
    - ForeignSettingError     a clock lock or power limit is in force that was not asked for
  + GuardError                the clock guard is absent, refused, or lost the lease
  + MeasurementError          the number would be wrong, so none is returned
    - DeviceHotError          the board did not cool down in time
    - TraceCoverageError      the trace does not span the requested interval
  + TrackingError             a result could not be written, read back, or delivered
    - SchemaVersionError      another version of joulelab wrote it

Errors cross process boundaries under Ray, so each takes one positional message and
survives pickling; ``tests/contracts/test_errors.py`` checks every class.
"""

from importlib.util import find_spec


class JouleLabError(Exception):
    """Base class: catch this to catch everything the package raises on purpose."""


class ConfigError(JouleLabError, ValueError):
    """The request cannot be carried out as written."""


class UnknownNameError(ConfigError):
    """A registry has no entry under the given name."""


class UserCodeError(ConfigError):
    """Code of the user's failed; the message has its lines below each other."""


class NotAllowedError(ConfigError):
    """The policy of the node's clock guard does not allow this user that operating point."""


class DeviceError(JouleLabError):
    """A device refused a request or failed while serving it."""


class DeviceNotFoundError(DeviceError):
    """No device with the given index or UUID."""


class DeviceLostError(DeviceError):
    """The device fell off the bus or its driver went away; nothing on it can be trusted."""


class DevicePermissionError(DeviceError):
    """The process may not change this device's clocks or power limit."""


class DeviceUnsupportedError(DeviceError):
    """The device has no such sensor or control."""


class ForeignSettingError(DeviceError):
    """A clock lock or a power limit is in force that the measurement did not ask for."""


class GuardError(JouleLabError):
    """The clock guard is absent, refused the request, or lost the lease."""


class MeasurementError(JouleLabError):
    """The measurement is not trustworthy, so no number is returned."""


class DeviceHotError(MeasurementError):
    """The board did not cool down to where a measurement was to begin."""


class TraceCoverageError(MeasurementError):
    """A power trace does not span the interval it is asked to integrate."""


class TrackingError(JouleLabError):
    """A result could not be written, read back, or delivered."""


class SchemaVersionError(TrackingError):
    """A result is whole, but another version of joulelab wrote it."""


INTERRUPTED = 130
"""Exit code of what was interrupted, as a shell has it."""


def one_line(message: object) -> str:
    """Return the text of ``message`` as one line, control characters and the like escaped.

    What a file or another program wrote could move the cursor of a terminal otherwise.
    """
    return printable(" ".join(str(message).split()))


def printable(text: str) -> str:
    """Return ``text`` with control characters and the like escaped, line breaks too."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_EXTRAS = {
    "cluster": ("ray",),
    "detection": ("ultralytics",),
    "metrics": ("grpclib", "opentelemetry", "prometheus_client"),
    "plots": (
        *("jinja2", "markupsafe", "matplotlib"),
        *("pandas", "pyarrow", "scipy", "statsmodels"),
    ),
    "power-models": ("lightgbm", "skops", "xgboost"),
    "postgresql": ("psycopg",),
    "quality": (
        *("PIL", "faster_coco_eval", "rouge_score", "sacrebleu"),
        *("torch_fidelity", "torchmetrics"),
    ),
    "search": ("optuna", "threadpoolctl"),
    "tracking": ("mlflow", "sqlalchemy", "yaml"),
    "workloads": (
        *("diffusers", "huggingface_hub", "safetensors", "sklearn", "timm"),
        *("torch", "torchao", "torchvision", "transformers"),
    ),
}
"""The extra to name for each module; several bring some of them."""

ANALYSIS = ("matplotlib", "pandas", "pyarrow", "scipy")
"""What it takes to say what a study found."""


def missing_extra(error: ImportError) -> str | None:
    """Say which extra brings the module that ``error`` lacks.

    Returns:
        One sentence, or ``None`` if it is no module of an extra.
    """
    module = (error.name or "").partition(".")[0]
    for extra, modules in _EXTRAS.items():
        if module in modules:
            return (
                f"This needs {module}, which is not installed; it comes with "
                f"pip install 'joulelab[{extra}]' (or 'joulelab[all]')."
            )
    return None


def require(*modules: str) -> None:
    """Refuse to begin what needs modules that are not installed; imports none of them.

    Raises:
        ConfigError: Names the extra that brings the first that is missing.
    """
    for module in modules:
        if find_spec(module) is None:
            raise ConfigError(missing_extra(ImportError(name=module)) or f"This needs {module}.")
