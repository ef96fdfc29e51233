"""Text to image in the three stages of the pipelines of diffusers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from diffusers.utils.torch_utils import randn_tensor
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.workloads.diffusion_parts import PROMPT_TOKENS, Denoising, Parts, scheduler_of
from joulelab.workloads.diffusion_settings import DiffusionSettings

Prompts = tuple[torch.Tensor, ...]
"""Token ids for each text encoder, shape (images, 77)."""

_WORDS = 20
"""Tokens of a random prompt before its padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a step of denoising knows of the prompts; with guidance, first of none, then of them."""

    text: torch.Tensor
    added: Mapping[str, torch.Tensor] | None = None


class TextToImage:
    """Turns prompts into images, stage by stage.

    No stage waits for the device, except where a scheduler of diffusers does. Prompts are token ids
    for each text encoder, on the device of the networks. Sources of noise are one, or one for each
    prompt; each image then depends on its own prompt and number alone, not on its neighbours in the
    batch. The first is seeded with ``seed``, each further one with one more.
    """

    def __init__(
        self,
        parts: Parts,
        settings: DiffusionSettings,
        *,
        prompts: Prompts,
        generators: Sequence[torch.Generator],
        seed: int,
    ) -> None:
        self._text_encoders, self._vae = parts.text_encoders, parts.vae
        self._settings = settings
        self._prompts = prompts
        device = prompts[0].device
        blank = [tokens.to(device) for tokens in parts.tokens([""])]
        self._no_prompts = tuple(tokens.expand(len(prompts[0]), -1) for tokens in blank)
        self._sizes = self._sizes_and_crops(device, parts.unet.dtype)
        self.denoising = LatentDenoising(parts, settings, generators=generators, seed=seed)
        """The loop over the steps; needs :meth:`encode` before it."""

    def encode(self) -> None:
        """Turn the prompts into conditions of the denoising."""
        encode = self._encoded_xl if self._settings.pipeline.pooled_width else self._encoded
        self.denoising.conditions = encode()

    def decode(self) -> torch.Tensor:
        """Turn the denoised latents into images of shape (images, 3, side, side), from 0 to 1."""
        vae = self._vae
        latents = self.denoising.latents.to(vae.dtype)
        image = vae.decode(latents / vae.config.scaling_factor, return_dict=False)[0]
        made: torch.Tensor = (image / 2 + 0.5).clamp(0, 1)
        return made

    def _encoded(self) -> Conditions:
        (encoder,) = self._text_encoders
        text = encoder(*self._prompts)[0]
        if self._settings.is_guided:
            text = torch.cat([encoder(*self._no_prompts)[0], text])
        return Conditions(text=text)

    def _encoded_xl(self) -> Conditions:
        """An XL network takes zeros for the embedding of no prompt."""
        outputs = [
            encoder(tokens, output_hidden_states=True)
            for encoder, tokens in zip(self._text_encoders, self._prompts, strict=True)
        ]
        text = torch.cat([output.hidden_states[-2] for output in outputs], dim=-1)
        pooled, sizes = outputs[-1].text_embeds, self._sizes
        if self._settings.is_guided:
            text = torch.cat([torch.zeros_like(text), text])
            pooled = torch.cat([torch.zeros_like(pooled), pooled])
            sizes = torch.cat([sizes, sizes])
        return Conditions(text=text, added={"text_embeds": pooled, "time_ids": sizes})

    def _sizes_and_crops(self, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        """Original size, corner of the crop, target size (arXiv:2307.01952, section 2.2)."""
        side = self._settings.image_size
        numbers = torch.tensor([[side, side, 0, 0, side, side]], dtype=dtype)
        return numbers.to(device).repeat(len(self._prompts[0]), 1)


class LatentDenoising(Denoising):
    """The steps from noise to latents; generators and seed as of :class:`TextToImage`."""

    def __init__(
        self,
        parts: Parts,
        settings: DiffusionSettings,
        *,
        generators: Sequence[torch.Generator],
        seed: int,
    ) -> None:
        scheduler = scheduler_of(settings.scheduler, parts.schedule)
        self._generators = list(generators)
        options: dict[str, Any] = {}
        if "generator" in signature(scheduler.step).parameters:
            is_one = len(self._generators) == 1
            options["generator"] = self._generators[0] if is_one else self._generators
        super().__init__(scheduler, settings.num_steps, **options)
        self._unet = parts.unet
        self._settings = settings
        self._seed = seed
        self.conditions: Conditions | None = None
        """What the steps know of the prompts."""

    @override
    def noise(self) -> torch.Tensor:
        for index, generator in enumerate(self._generators):
            generator.manual_seed(self._seed + index)
        text = self._known.text
        # Drawn alike for every precision: before 2.13, torch drew others in 16 bits on CPUs.
        samples = len(text) // 2 if self._settings.is_guided else len(text)
        side = self._settings.image_size // self._settings.pipeline.pixels_per_latent
        channels = self._unet.config.in_channels
        drawn = randn_tensor(
            (samples, channels, side, side),
            generator=self._generators,
            device=text.device,
        )
        noise: torch.Tensor = drawn.to(text.dtype)
        return noise

    @override
    def step(self, index: int) -> None:
        samples = torch.cat([self.latents] * 2) if self._settings.is_guided else self.latents
        noise = self._unet(
            self.scaled(samples, index),
            self._times[index],
            encoder_hidden_states=self._known.text,
            added_cond_kwargs=self._known.added,
            return_dict=False,
        )[0]
        if self._settings.is_guided:
            plain, prompted = noise.chunk(2)
            noise = plain + self._settings.guidance_scale * (prompted - plain)
        self.follow(noise, index)

    @property
    def _known(self) -> Conditions:
        if self.conditions is None:
            raise ConfigError("Denoising needs conditions: encode the prompts first.")
        return self.conditions


def images_of(
    parts: Parts, settings: DiffusionSettings, texts: Sequence[str], device: torch.device
) -> torch.Tensor:
    """Return images of ``texts`` on the host, (texts, 3, side, side), 0 to 1, seeds counting up."""
    starts = range(0, len(texts), settings.batch)
    batches = [(start, texts[start : start + settings.batch]) for start in starts]
    made = [_batch_of(parts, settings, batch, start, device) for start, batch in batches]
    side = settings.image_size
    return torch.cat(made) if made else torch.empty(0, 3, side, side)


def _batch_of(
    parts: Parts,
    settings: DiffusionSettings,
    texts: Sequence[str],
    start: int,
    device: torch.device,
) -> torch.Tensor:
    stages = TextToImage(
        parts,
        settings,
        prompts=tuple(tokens.to(device) for tokens in parts.tokens(texts)),
        generators=[torch.Generator("cpu") for _ in texts],
        seed=settings.seed + start,
    )
    stages.encode()
    stages.denoising()
    return stages.decode().float().cpu()


def random_prompts(
    parts: Parts, settings: DiffusionSettings, device: torch.device
) -> tuple[torch.Tensor, ...]:
    """Return prompts of random tokens for each text encoder, as long as a sentence."""
    source = torch.Generator(device).manual_seed(settings.seed)
    return tuple(
        _random_tokens(encoder.config, settings.batch, source) for encoder in parts.text_encoders
    )


def _random_tokens(config: Any, num: int, source: torch.Generator) -> torch.Tensor:
    shape = (num, PROMPT_TOKENS)
    tokens = torch.randint(config.vocab_size - 2, shape, generator=source, device=source.device)
    tokens[:, 0] = config.bos_token_id
    tokens[:, 1 + _WORDS :] = config.eos_token_id
    return tokens
