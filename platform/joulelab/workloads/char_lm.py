"""A small language model that is trained to write a generated language, byte by byte."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from joulelab.workloads.knobs import require_choice
from joulelab.workloads.language import LanguageWorkload
from joulelab.workloads.language_settings import LanguageSettings, Precision
from joulelab.workloads.trained_settings import Weights, check_weights

Model = Literal["char-lm"]

MAX_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class CharLmSettings(LanguageSettings):
    """Write a generated language with a small Llama whose tokens are bytes.

    Attributes:
        model: There is one.
        weights: trained on this machine, once, in a minute or two; None for random.
        precision: Number format of weights and products; int8, int4 and fp8 store linear layers
            so and keep the rest in 16 bits. tf32 is stored as fp32.
        batch: Sequences computed side by side.
        prompt_tokens: Tokens of each prompt.
        context_tokens: Tokens in the cache when the decode starts, of random content that
            nothing computed; by default those of the prompt that the prefill read.
        new_tokens: Tokens that one decode generates for each prompt.
        kv_cache: dynamic grows by concatenation, as in plain transformers; static is allocated
            for the full length and written in place.
        compile: Compile the decode step, with CUDA graphs on a GPU; needs a static cache.
    """

    model: Model = "char-lm"
    weights: Weights = "trained"
    precision: Precision = "fp32"
    batch: int = 16
    prompt_tokens: int = 96
    new_tokens: int = 32

    def __post_init__(self) -> None:
        super(CharLmSettings, self).__post_init__()  # slots make a class anew
        require_choice("model", self.model, get_args(Model))
        check_weights(self.weights)
        self.check_lengths(MAX_TOKENS)


class CharLm(LanguageWorkload[CharLmSettings]):
    """Continues bytes, and counts them."""

    settings_type: ClassVar = CharLmSettings

    @override
    def network(self, device: Any) -> Any:
        from joulelab.workloads.char_lm_network import load_network

        return load_network(self.settings, device)
