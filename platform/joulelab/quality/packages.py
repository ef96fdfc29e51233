"""Packages that some metrics need and nothing else does."""

from importlib.util import find_spec

from joulelab.errors import ConfigError


def require_package(metric: str, package: str, module: str) -> None:
    """Refuse to score by ``metric`` where ``package`` is not installed.

    Args:
        metric: Name of the metric.
        package: Name by which it is installed.
        module: Name by which it is imported.

    Raises:
        ConfigError: Says how to install it.
    """
    if find_spec(module) is None:
        raise ConfigError(f"{metric} needs the package {package}: pip install 'joulelab[quality]'.")
