"""From a case to the step that is run over and over, on weights and inputs of random numbers.

Networks are built by the estimator's own sources of models, on the device, so that what runs is
what the estimator traces: decoding is on a growing cache, and a step of training is its own.
"""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from network_points import Case

from joulelab.core.number_format import number_format
from joulelab.estimator.models import find_model
from joulelab.estimator.models.language import LanguageModel, SpeechModel
from joulelab.estimator.models.network import NetworkModel
from joulelab.tracing.trace import TrainingStep
from joulelab.workloads.whisper import START_TOKENS

Step = Callable[[], object]
_ROOT = Path(__file__).parents[1]
_TOKEN_IDS = 1000
_LEARNING_RATE = 1e-6
"""Small, so that hundreds of steps leave all numbers finite; it changes no kernel."""

_COMPILE_MODES = {"compiled": "reduce-overhead", "compiled_launched": "default"}


@dataclass
class Loop:
    """What is run over and over.

    Attributes:
        step: One iteration; nothing in it waits for the device.
        context: What it runs in: without gradients, or with them.
        result: Returns what must be finite, from what a step returned.
        period: Steps after which they repeat; their shapes differ in between.
        kept: What must live as long as the loop.
    """

    step: Step
    context: Callable[[], AbstractContextManager[object]]
    result: Callable[[object], object] = lambda returned: returned
    period: int = 1
    kept: object = None


class LoopMaker:
    """Makes loops on one device; keeps the last network for the next case."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._key: object = None
        self._network: Any = None

    def forget(self) -> None:
        """Let the last network go."""
        self._key, self._network = None, None
        gc.collect()

    def make(self, case: Case, *, longest: int = 10**9, batch: int = 0) -> Loop:
        """Return the loop of ``case``.

        Args:
            case: What to run.
            longest: Tokens after which a prompt is cut, for a trial on a small machine.
            batch: Samples in place of the case's own, for such a trial.
        """
        model, size = find_model(located(case.model)), batch or case.batch
        network = self._built(case, model)
        network.train(mode=case.phase == "train")
        with torch.device(self.device):
            loop = self._made(case, model, network, size, longest)
        # Attention of torch.nn takes its fused path only outside of a device's context.
        return _graphed(loop.step) if case.mode == "graph" and self.device == "cuda" else loop

    def _made(self, case: Case, model: Any, network: Any, size: int, longest: int) -> Loop:
        if isinstance(model, LanguageModel):
            tokens = min(case.knobs["prompt_tokens"], longest)
            return _language(case, model, network, _token_ids(size, tokens))
        if isinstance(model, SpeechModel):
            return _speech(case, model, network, size)
        if not isinstance(model, NetworkModel):
            raise TypeError(f"{case.model} is a {type(model).__name__}, which is not run here.")
        return self._plain(case, model, network, size)

    def _built(self, case: Case, model: Any) -> Any:
        knobs = tuple(sorted(case.knobs.items()))
        key = (case.model, knobs, case.precision, case.phase == "train", self.device)
        if key != self._key:
            self.forget()
            torch.manual_seed(0)
            network = _build(model, self.device, _knobs(case, model))
            dtype = getattr(torch, number_format(case.precision).traced)
            _ask_no_values(network)
            self._network, self._key = network.to(self.device, dtype), key
        return self._network

    def _plain(self, case: Case, model: NetworkModel, network: Any, batch: int) -> Loop:
        dtype = getattr(torch, number_format(case.precision).traced)
        inputs = {
            name: filled(tensor.to(dtype) if tensor.is_floating_point() else tensor)
            for name, tensor in model.inputs(batch, _knobs(case, model)).items()
        }

        def step() -> object:
            return model.call(network, inputs)

        if case.phase == "train":
            return _training(network, step)
        if case.mode in _COMPILE_MODES:
            return _compiled(case, model, network, inputs)
        return Loop(step=step, context=torch.inference_mode)


def located(model: str) -> str:
    """Return ``model``, a file of this project with its whole path."""
    return f"{_ROOT / model}" if ".py:" in model else model


def filled(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` with random numbers, or random token ids, in it."""
    if tensor.is_floating_point():
        return tensor.normal_()
    return tensor.random_(0, _TOKEN_IDS)


def is_finite(returned: object) -> bool:
    """Return whether all numbers in a nest of containers are finite."""
    if isinstance(returned, torch.Tensor):
        has_values = returned.is_floating_point() and not returned.is_meta
        return not has_values or bool(returned.isfinite().all())
    if isinstance(returned, Mapping):
        return is_finite(list(returned.values()))
    if isinstance(returned, Sequence) and not isinstance(returned, str):
        return all(is_finite(part) for part in returned)
    return True


def _ask_no_values(network: torch.nn.Module) -> None:
    """Have transformers not look for padding in every batch, for which it waits for the device.

    It looks only to warn, and not while it is traced.
    """
    for module in network.modules():
        config: Any = getattr(module, "config", None)
        if getattr(config, "pad_token_id", None) is not None:
            config.pad_token_id = None


def _token_ids(batch: int, tokens: int) -> torch.Tensor:
    return filled(torch.empty(batch, tokens, dtype=torch.long))


def _training(network: Any, forward: Step) -> Loop:
    step = TrainingStep(forward, network=network)
    for group in step.optimizer.param_groups:
        group["lr"] = _LEARNING_RATE
    return Loop(step, torch.enable_grad, lambda _: list(network.parameters())[::8])


def _compiled(case: Case, model: NetworkModel, network: Any, inputs: Any) -> Loop:
    _say_nothing_is_exported()
    compiled = torch.compile(network, mode=_COMPILE_MODES[case.mode], dynamic=False)

    def step() -> object:
        torch.compiler.cudagraph_mark_step_begin()
        return model.call(compiled, inputs)

    return Loop(step=step, context=torch.no_grad)


def _say_nothing_is_exported() -> None:
    """Let transformers know while it is compiled that it is not exported.

    PyTorch before 2.13 says there that it is, and encoders make a mask that keeps attention apart.
    """
    masking = sys.modules.get("transformers.masking_utils")
    if masking is not None:
        vars(masking)["is_torchdynamo_exporting"] = lambda: False


def _graphed(step: Step) -> Loop:
    """Capture one step in a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode():
        with torch.cuda.stream(side):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            returned = step()

    def replay() -> object:
        graph.replay()
        return returned

    # The graph reads the memory of what the step was given, so it must outlive the capture.
    return Loop(step=replay, context=torch.inference_mode, kept=step)


def _language(case: Case, model: LanguageModel, network: Any, prompt: torch.Tensor) -> Loop:
    if case.phase == "train":
        return _training(network, lambda: network(input_ids=prompt).logits)
    from transformers import DynamicCache

    def read(tokens: torch.Tensor, cache: Any) -> object:
        output = network(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        torch.argmax(output.logits[:, -1], dim=-1, keepdim=True)
        return output.logits

    if case.phase == "prefill":
        return Loop(lambda: read(prompt, DynamicCache(config=model.config)), torch.inference_mode)
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        read(prompt, cache)
    token = prompt[:, :1].clone()
    return _decoding(lambda: read(token, cache), cache, case.knobs["new_tokens"])


def _speech(case: Case, model: SpeechModel, network: Any, batch: int) -> Loop:
    from transformers import DynamicCache, EncoderDecoderCache

    config: Any = model.config
    shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
    features = filled(torch.empty(shape, dtype=network.dtype))
    if case.phase == "encode":
        return Loop(lambda: network.model.encoder(features), torch.inference_mode)
    own = DynamicCache(config=config)
    cache = EncoderDecoderCache(own, DynamicCache(config=config))
    with torch.inference_mode():
        encoded = network.model.encoder(features)

    def read(tokens: torch.Tensor) -> object:
        output = network(
            decoder_input_ids=tokens, encoder_outputs=encoded, past_key_values=cache, use_cache=True
        )
        torch.argmax(output.logits[:, -1], dim=-1, keepdim=True)
        return output.logits

    with torch.inference_mode():
        read(_token_ids(batch, START_TOKENS))
    token = _token_ids(batch, 1)
    return _decoding(lambda: read(token), own, case.knobs["new_tokens"])


def _decoding(step: Step, cache: Any, new_tokens: int) -> Loop:
    """Decode ``new_tokens`` tokens, and again from where the cache is now.

    Each step makes new tensors for the cache's layers, so going back copies nothing.
    """
    first = [dict(vars(layer)) for layer in cache.layers]
    numbers = cycle(range(new_tokens))

    def decode() -> object:
        if next(numbers) == 0:
            for layer, values in zip(cache.layers, first, strict=True):
                vars(layer).update(values)
        return step()

    return Loop(step=decode, context=torch.inference_mode, period=new_tokens)


def _knobs(case: Case, model: Any) -> Mapping[str, Any]:
    return {**model.knobs, **case.knobs}


def _build(model: Any, device: str, knobs: Mapping[str, Any]) -> Any:
    with torch.device(device):
        return model.built(knobs) if isinstance(model, NetworkModel) else model.build()


def num_parameters(name: str) -> int:
    """Return how many parameters the model called ``name`` has; gives them no memory if it can."""
    model: Any = find_model(located(name))
    try:
        network = _build(model, "meta", model.knobs)
    except NotImplementedError:  # its constructor reads values
        network = _build(model, "cpu", model.knobs)
    return sum(parameter.numel() for parameter in network.parameters())
