"""Drop what torchao says when it is imported beside a PyTorch that its kernels are not built for.

transformers imports torchao with its networks wherever it is installed, so it speaks on every
command. What it misses are kernels of formats that are not used here.
"""

import logging
from functools import cache, partial

_HARMLESS = {
    "torchao": "Failed to load",
    "torchao.kernel.intmm": "Detected no triton",
    "torch.utils._pytree": "is an Enum subclass and is now natively supported",
}


@cache
def hush_torchao() -> None:
    """Drop these messages, and no others of the same loggers; once per process."""
    for name, phrase in _HARMLESS.items():
        logging.getLogger(name).addFilter(partial(_lacks, phrase))


def _lacks(phrase: str, record: logging.LogRecord) -> bool:
    return phrase not in record.getMessage()
