"""Which extra of the package brings a module that is not installed."""

from importlib.util import find_spec

from joulelab.errors import ConfigError

_EXTRAS = {
    "cluster": ("ray",),
    "detection": ("ultralytics",),
    "metrics": ("prometheus_client",),
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
        *("diffusers", "safetensors", "sklearn", "timm"),
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
