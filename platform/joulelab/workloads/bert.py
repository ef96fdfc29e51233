"""BERT that answers questions about a text, as in MLPerf's inference benchmark."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.network import NetworkSettings, NetworkWorkload, Programs

Model = Literal["tiny", "bert-base", "bert-large"]

# What config.json of google-bert/bert-*-uncased (arXiv:1810.04805) changes of the defaults of
# transformers, which are bert-base. tiny is for tests and no published network.
CONFIGS: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 256,
    },
    "bert-base": {},
    "bert-large": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
    },
}
_SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "vocab_size"),
)
_LONGEST = 512  # positions of every published BERT

QUESTION_SHARE = 8
"""The part of a sequence that is the question, one over this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BertSettings(NetworkSettings):
    """Find the answers to questions in texts of random tokens, with BERT.

    Attributes:
        model: Geometry of the network.
        weights: Folder or hub id of a checkpoint of that geometry that was trained to answer
            questions; random by default.
        tokens: Tokens of each sequence, a question and a text; 384 as in MLPerf.
    """

    model: Model = "bert-large"
    batch: int = 8
    tokens: int = 384

    def __post_init__(self) -> None:
        NetworkSettings.__post_init__(self)
        if self.tokens > _LONGEST:
            raise ConfigError(f"tokens must be at most {_LONGEST} for BERT, got {self.tokens}.")


class Bert(NetworkWorkload[BertSettings]):
    """Reads sequences of full length, none padded, and counts them."""

    settings_type: ClassVar = BertSettings
    unit: ClassVar = "sequence"
    samples_per_run: ClassVar = 32
    input_knobs: ClassVar = frozenset({"batch", "tokens"})
    called: ClassVar = "{model}"

    @override
    def programs(self, network: Any, device: Any) -> Programs:
        import torch

        shape = (self.settings.batch, self.settings.tokens)
        # The first eighth of the tokens are the question.
        is_text = torch.arange(shape[1], device=device) >= shape[1] // QUESTION_SHARE
        inputs = {
            "input_ids": torch.randint(network.config.vocab_size, shape, device=device),
            "token_type_ids": is_text.long().expand(shape).contiguous(),
        }
        return {"forward": lambda: network(**inputs)}

    @override
    def network(self, device: Any) -> Any:
        import transformers  # only names until hub made it importable

        from joulelab.workloads import hub

        config = transformers.BertConfig(**CONFIGS[self.settings.model])
        auto = transformers.AutoModelForQuestionAnswering
        return hub.network_of(auto, config, self.settings, device, shape=_SHAPE)
