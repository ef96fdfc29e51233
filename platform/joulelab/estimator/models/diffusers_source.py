"""Text-to-image pipelines of diffusers, as phases: text encoder, denoising steps, decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from typing_extensions import override

from joulelab.core.process import quiet
from joulelab.errors import ConfigError
from joulelab.estimator.models.base import Knobs, Model, Request, Source, Traced
from joulelab.estimator.models.network import fake_run, shapes_of
from joulelab.registry import unknown_name
from joulelab.tracing.program import Program, ProgramPhase
from joulelab.tracing.torchvision_shim import ensure_torchvision
from joulelab.tracing.trace import fake_network, trace_program
from joulelab.workloads.diffusion_settings import PIPELINES, Pipeline

ensure_torchvision()

from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL  # noqa: E402
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel  # noqa: E402
from transformers import CLIPTextConfig, CLIPTextModelWithProjection  # noqa: E402

_TOKENS = 77
"""Length of a prompt, padded: CLIP's longest."""

_LATENT_CHANNELS = 4
_NAMES: Mapping[str, str] = {
    "stable-diffusion-1.4": "sd-1.4",
    "stable-diffusion-1.5": "sd-1.5",
    "stable-diffusion-2.1": "sd-2.1",
    "stable-diffusion-turbo": "sd-turbo",
    "stable-diffusion-xl": "sdxl",
    "stable-diffusion-xl-turbo": "sdxl-turbo",
}
"""Names of pipelines here, and in :data:`joulelab.workloads.diffusion_settings.PIPELINES`."""

_SIZES_AND_CROPS = 6
"""Numbers that condition the XL network on sizes: original, crop, target (arXiv:2307.01952)."""


class DiffusersSource(Source):
    """Published pipelines."""

    @override
    def names(self) -> Sequence[str]:
        return tuple(sorted(_NAMES))

    @override
    def find(self, name: str) -> Model:
        if name not in _NAMES:
            raise unknown_name("pipeline", name, _NAMES)
        return PipelineModel(title=name, pipeline=PIPELINES[_NAMES[name]])


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineModel(Model):
    """A pipeline; every phase holds the weights of all its networks."""

    unit: ClassVar[str] = "image"
    title: str
    pipeline: Pipeline

    @property
    @override
    def knobs(self) -> Knobs:
        return {"steps": self.pipeline.steps, "image_size": self.pipeline.image_size}

    @override
    def trace(self, request: Request) -> Traced:
        if request.training:
            raise ConfigError(f"No training step of {self.title} is traced: only its inference is.")
        steps, side = (int(str(request.knobs[name])) for name in ("steps", "image_size"))
        multiple = self.pipeline.size_step
        if steps < 1 or side < multiple or side % multiple:
            raise ConfigError(
                f"steps must be at least 1 and image_size a multiple of {multiple}, "
                f"got {steps} and {side}."
            )
        with quiet("diffusers"), fake_run(self.title):
            parts = _Parts(self.pipeline, getattr(torch, request.dtype), request.batch)
            text, latent = parts.prompt(), parts.latent(side // self.pipeline.pixels_per_latent)
            programs = {
                "text encoder": (parts.trace_text_encoders(text), 1),
                "denoising": (parts.trace_step(latent), steps),
                "decoder": (parts.trace_decoder(latent), 1),
            }
        return Traced(
            phases=_phases(programs, request.batch),
            inputs=shapes_of({"prompt": text, "latent": latent}),
        )


def _phases(programs: Mapping[str, tuple[Program, int]], batch: int) -> tuple[ProgramPhase, ...]:
    parameter_b = sum(program.parameter_b for program, _ in programs.values())
    return tuple(
        ProgramPhase(
            phase=phase,
            work=float(batch),
            program=replace(program, parameter_b=parameter_b),
            count=count,
        )
        for phase, (program, count) in programs.items()
    )


class _Parts:
    """The networks of a pipeline, on fake tensors."""

    def __init__(self, pipeline: Pipeline, dtype: torch.dtype, batch: int) -> None:
        self._pipeline = pipeline
        self._dtype = dtype
        self._batch = batch
        self._is_guided = pipeline.guidance > 1
        self._samples = 2 * batch if self._is_guided else batch

    def prompt(self) -> torch.Tensor:
        return torch.empty(self._samples, _TOKENS, dtype=torch.long)

    def latent(self, side: int) -> torch.Tensor:
        return self._empty(self._batch, _LATENT_CHANNELS, side, side)

    def trace_text_encoders(self, tokens: torch.Tensor) -> Program:
        encoders = torch.nn.ModuleList(
            fake_network(partial(_text_encoder, config), self._dtype)
            for config in self._pipeline.text_encoders
        ).eval()
        return trace_program(
            lambda: [encoder(tokens, output_hidden_states=True) for encoder in encoders],
            network=encoders,
            inputs=tokens,
        )

    def trace_step(self, latent: torch.Tensor) -> Program:
        unet: Any = fake_network(
            lambda: UNet2DConditionModel(**self._pipeline.unet), self._dtype
        ).eval()
        text = self._empty(self._samples, _TOKENS, self._pipeline.unet["cross_attention_dim"])
        time = torch.empty((), dtype=torch.long)
        more = self._conditions()

        def step() -> object:
            samples = torch.cat([latent, latent]) if self._is_guided else latent
            noise = unet(samples, time, text, added_cond_kwargs=more).sample
            if self._is_guided:
                plain, prompted = noise.chunk(2)
                noise = plain + self._pipeline.guidance * (prompted - plain)
            return latent - 0.5 * noise  # Euler's rule; the schedule's factors are scalars

        return trace_program(step, network=unet, inputs=(latent, text, more))

    def trace_decoder(self, latent: torch.Tensor) -> Program:
        vae: Any = fake_network(lambda: AutoencoderKL(**self._pipeline.vae), self._dtype).eval()
        return trace_program(lambda: vae.decode(latent).sample, network=vae, inputs=latent)

    def _conditions(self) -> dict[str, torch.Tensor]:
        width = self._pipeline.pooled_width
        if not width:
            return {}
        return {
            "text_embeds": self._empty(self._samples, width),
            "time_ids": self._empty(self._samples, _SIZES_AND_CROPS),
        }

    def _empty(self, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=self._dtype)


def _text_encoder(config: Mapping[str, Any]) -> torch.nn.Module:
    network: torch.nn.Module = CLIPTextModelWithProjection(CLIPTextConfig(**config))
    return network
