"""Classifiers, to be scored: what classes they see in images and sequences."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from joulelab.quality.class_data import read_class_images, read_tokens
from joulelab.quality.image_data import LabelledData
from joulelab.quality.image_protocols import Classifies
from joulelab.workloads.bert import Bert
from joulelab.workloads.class_outputs import ClassOutputs
from joulelab.workloads.lstm import Lstm
from joulelab.workloads.network_outputs import AnyNetwork, NetworkSubject
from joulelab.workloads.resnet50 import Resnet50
from joulelab.workloads.vit import Vit

SETTLING_BATCH = 8
"""Images over which the batch norms of random networks settle, whatever the workload's batch."""

_QUESTION_SHARE = 8  # as the workload's inputs


class ClassSubject(NetworkSubject[AnyNetwork]):
    """A network that tells classes apart, of images unless said otherwise."""

    metrics: ClassVar[tuple[str, ...]] = ("class_agreement", "class_divergence")
    answers: ClassVar = (Classifies,)

    @staticmethod
    @override
    def read_data(source: str | None) -> LabelledData:
        return read_class_images(source)

    @abstractmethod
    def scores(self, network: Any, inputs: Any) -> Any:
        """Return the scores of the classes of a tensor of inputs."""

    def prepared(self, network: Any) -> Callable[[list[Any]], Any]:
        """Return what turns inputs of the data set into one array or tensor for ``network``."""
        import numpy as np

        return np.stack

    @override
    def outputs(self, network: Any) -> ClassOutputs:
        return ClassOutputs(
            lambda inputs: self.scores(network, inputs),
            self.workload.settings.precision,
            self.prepared(network),
        )


class VitSubject(ClassSubject[Vit]):
    """The Vision Transformer, its images prepared as its checkpoint says."""

    @override
    def prepared(self, network: Any) -> Callable[[list[Any]], Any]:
        from joulelab.workloads.image_preparation import prepared_for_vit

        return prepared_for_vit(self.workload.settings.weights, network.config.image_size)

    @override
    def scores(self, network: Any, inputs: Any) -> Any:
        return network(pixel_values=inputs).logits


class Resnet50Subject(ClassSubject[Resnet50]):
    """ResNet-50, its images prepared as torchvision does for its published weights."""

    @override
    def build(self, workload: Any, device: Any) -> Any:
        settled = replace(workload.settings, batch=SETTLING_BATCH)
        return type(workload)(settled).load(device)[0]

    @override
    def prepared(self, network: Any) -> Callable[[list[Any]], Any]:
        from joulelab.workloads.image_preparation import prepared_for_resnet50

        return prepared_for_resnet50(self.workload.settings.image_size)

    @override
    def scores(self, network: Any, inputs: Any) -> Any:
        return network(inputs)


class TokenSubject(ClassSubject[AnyNetwork]):
    """A network that tells classes of sequences apart, as long as the data set has them."""

    without_effect: ClassVar = frozenset({"batch", "sequence_tokens", "tokens"})

    @staticmethod
    @override
    def read_data(source: str | None) -> LabelledData:
        return read_tokens(source)


class LstmSubject(TokenSubject[Lstm]):
    """The LSTM. Tokens beyond its vocabulary are counted round."""

    @override
    def scores(self, network: Any, inputs: Any) -> Any:
        return network.train(mode=False)(inputs % network.embedding.num_embeddings)


class BertSubject(TokenSubject[Bert]):
    """BERT, whose classes are the spans that an answer may be: start times tokens plus end."""

    @override
    def scores(self, network: Any, inputs: Any) -> Any:
        import torch

        tokens = inputs.shape[1]
        is_text = torch.arange(tokens, device=inputs.device) >= tokens // _QUESTION_SHARE
        found = network(input_ids=inputs, token_type_ids=is_text.long().expand(inputs.shape))
        starts, ends = found.start_logits.float(), found.end_logits.float()
        return (starts[:, :, None] + ends[:, None, :]).flatten(1)
