"""Options that the commands of the estimator share, and how their words are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from joulelab.core.configuration import KnobValue
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import Question, knob_value

Names = Annotated[str, tyro.conf.arg(metavar="NAME[,NAME...]")]
Numbers = Annotated[str, tyro.conf.arg(metavar="N[,N...]")]
Formats = Annotated[str | None, tyro.conf.arg(metavar="NAME[,NAME...]")]
KnobWords = Annotated[
    tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What every command asks about.

    Attributes:
        model: Models: names that `joulelab models` lists, timm:NAME, hf:TYPE?option=value,
            workload:NAME, or path.py:Class of a file of yours, which also defines
            example_inputs(batch). Such a file is executed.
        device: Devices that `joulelab processors` lists.
        precision: Number formats: fp64, fp32, tf32, fp16, bf16, fp8, int8, int4. By default the
            usual one of each device.
        batch: Batch sizes.
        num_devices: Devices that share each model by tensor parallelism.
        training: Take a training step instead of inference.
        knob: Settings of the model, such as prompt_tokens=512 or image_size=384.
        json: Print one JSON object instead of text.
    """

    model: Names
    device: Names
    precision: Formats = None
    batch: Numbers = "1"
    num_devices: int = 1
    training: bool = False
    knob: KnobWords = ()
    json: bool = False

    def question(
        self,
        *,
        mode: Mode = "eager",
        point: OperatingPoint = OperatingPoint(),  # noqa: B008 - frozen
        events: bool = False,
        strict: bool = False,
    ) -> Question:
        """Put the options into a question.

        Raises:
            ConfigError: If a word cannot be read.
        """
        return Question(
            models=names(self.model, "model"),
            devices=names(self.device, "device"),
            precisions=() if self.precision is None else names(self.precision, "precision"),
            batches=numbers(self.batch, "batch"),
            mode=mode,
            point=point,
            num_devices=self.num_devices,
            training=self.training,
            knobs=knob_values(self.knob),
            events=events,
            strict=strict,
        )


def names(words: str, what: str) -> tuple[str, ...]:
    """Read ``"a,b"``.

    Raises:
        ConfigError: If there is no name in it.
    """
    found = tuple(word.strip() for word in words.split(",") if word.strip())
    if not found:
        raise ConfigError(f"--{what} needs at least one name, got {words!r}.")
    return found


def numbers(words: str, what: str) -> tuple[int, ...]:
    """Read ``"1,8,64"``.

    Raises:
        ConfigError: If a word is no whole number.
    """
    return tuple(_number(word, what) for word in names(words, what))


def knob_values(words: Sequence[Sequence[str]]) -> dict[str, KnobValue]:
    """Read ``key=value`` words.

    Raises:
        ConfigError: If a word has no ``=``.
    """
    return dict(knob_value(word) for some in words for word in some)


def _number(word: str, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"--{what} takes whole numbers, got {word!r}.") from None
