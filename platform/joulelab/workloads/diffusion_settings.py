"""Knobs of text-to-image diffusion, and published pipelines by the configuration of their parts.

Configurations are those of the ``config.json`` of each part on the hub, as far as they differ from
the defaults of diffusers and transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from joulelab.core.number_format import NetworkPrecision
from joulelab.errors import ConfigError
from joulelab.workloads.base import check_knobs, require_count, require_positive
from joulelab.workloads.network import NetworkSettings

Config = Mapping[str, Any]
Model = Literal["tiny", "tiny-xl", "sd-1.4", "sd-1.5", "sd-2.1", "sdxl", "sd-turbo", "sdxl-turbo"]
Scheduler = Literal["dpm++", "dpm++-karras", "euler", "euler-a", "ddim", "unipc"]

_CROSS, _PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"
_UP_CROSS, _UP_PLAIN = "CrossAttnUpBlock2D", "UpBlock2D"

# The vae of stable-diffusion-v1-5 and, in all that computes, of every pipeline here.
_VAE: Config = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "sample_size": 512,
}
# stabilityai/sdxl-vae: latents of another scale, which overflow in half precision.
_VAE_XL: Config = {**_VAE, "sample_size": 1024, "scaling_factor": 0.13025}
_SCHEDULE: Config = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "timestep_spacing": "leading",
    "steps_offset": 1,
    "clip_sample": False,
    "set_alpha_to_one": False,
}
_SCHEDULE_TURBO: Config = {**_SCHEDULE, "timestep_spacing": "trailing"}
_UNET_1: Config = {
    "sample_size": 64,
    "block_out_channels": (320, 640, 1280, 1280),
    "down_block_types": (_CROSS, _CROSS, _CROSS, _PLAIN),
    "up_block_types": (_UP_PLAIN, _UP_CROSS, _UP_CROSS, _UP_CROSS),
    "layers_per_block": 2,
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
}
_UNET_2: Config = {
    **_UNET_1,
    "cross_attention_dim": 1024,
    "attention_head_dim": (5, 10, 20, 20),
    "use_linear_projection": True,
}
_UNET_XL: Config = {
    "sample_size": 128,
    "block_out_channels": (320, 640, 1280),
    "down_block_types": (_PLAIN, _CROSS, _CROSS),
    "up_block_types": (_UP_CROSS, _UP_CROSS, _UP_PLAIN),
    "layers_per_block": 2,
    "cross_attention_dim": 2048,
    "attention_head_dim": (5, 10, 20),
    "transformer_layers_per_block": (1, 2, 10),
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
_TINY_TEXT: Config = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "projection_dim": 32,
    "bos_token_id": 998,
    "eos_token_id": 999,
}
_TINY_UNET: Config = {
    "sample_size": 8,
    "block_out_channels": (32, 64),
    "down_block_types": (_CROSS, _PLAIN),
    "up_block_types": (_UP_PLAIN, _UP_CROSS),
    "layers_per_block": 1,
    "cross_attention_dim": 32,
    "attention_head_dim": 4,
}
_TINY_VAE: Config = {
    "block_out_channels": (32, 32),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "sample_size": 16,
}


def _clip(width: int, layers: int, heads: int, projected: int, activation: str) -> Config:
    return {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "projection_dim": projected,
        "hidden_act": activation,
    }


# openai/clip-vit-large-patch14, its text half.
_CLIP_L = _clip(768, 12, 12, 768, "quick_gelu")
# laion/CLIP-ViT-H-14, its text half without the last layer: text_encoder of stable-diffusion-2-1.
_CLIP_H = _clip(1024, 23, 16, 512, "gelu")
# laion/CLIP-ViT-bigG-14, its text half: text_encoder_2 of stable-diffusion-xl-base-1.0.
_CLIP_G = _clip(1280, 32, 20, 1280, "gelu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A text-to-image pipeline.

    Attributes:
        unet: Configuration of the denoising network.
        vae: Configuration of the network that turns latents into an image.
        text_encoders: Configurations of the text encoders.
        image_size: Side of the image it was trained for, in pixels.
        steps: Denoising steps that its documentation starts from.
        guidance: Weight of the prompt that its documentation starts from; 0 is none.
        schedule: Noise levels it was trained on, in the words of the schedulers of diffusers.
        pooled_width: Width of the pooled text embedding that conditions ``unet``; 0 if none.
    """

    unet: Config
    vae: Config
    text_encoders: tuple[Config, ...]
    image_size: int
    steps: int = 50
    guidance: float = 7.5
    schedule: Config
    pooled_width: int = 0

    @property
    def pixels_per_latent(self) -> int:
        """Pixels of the image per position of the latent, along each side: each block halves."""
        return 1 << len(self.vae["block_out_channels"]) - 1

    @property
    def size_step(self) -> int:
        """What the side of an image must be a multiple of, in pixels."""
        return self.pixels_per_latent << len(self.unet["block_out_channels"]) - 1


# stable-diffusion-v1-5/stable-diffusion-v1-5 (arXiv:2112.10752).
_SD_1 = Pipeline(
    unet=_UNET_1, vae=_VAE, text_encoders=(_CLIP_L,), image_size=512, schedule=_SCHEDULE
)

PIPELINES: Mapping[str, Pipeline] = {
    # CompVis/stable-diffusion-v1-4: the shape of 1.5, trained for less long.
    "sd-1.4": _SD_1,
    "sd-1.5": _SD_1,
    # stabilityai/stable-diffusion-2-1, which predicts velocities (arXiv:2202.00512).
    "sd-2.1": Pipeline(
        unet={**_UNET_2, "sample_size": 96, "upcast_attention": True},
        vae={**_VAE, "sample_size": 768},
        text_encoders=(_CLIP_H,),
        image_size=768,
        schedule={**_SCHEDULE, "prediction_type": "v_prediction"},
    ),
    # stabilityai/sd-turbo (arXiv:2311.17042), distilled from stable-diffusion-2-1.
    "sd-turbo": Pipeline(
        unet=_UNET_2,
        vae={**_VAE, "sample_size": 768},
        text_encoders=(_CLIP_H,),
        image_size=512,
        steps=1,
        guidance=0.0,
        schedule=_SCHEDULE_TURBO,
    ),
    # stabilityai/stable-diffusion-xl-base-1.0 (arXiv:2307.01952).
    "sdxl": Pipeline(
        unet=_UNET_XL,
        vae=_VAE_XL,
        text_encoders=(_CLIP_L, _CLIP_G),
        image_size=1024,
        guidance=5.0,
        schedule=_SCHEDULE,
        pooled_width=1280,
    ),
    # stabilityai/sdxl-turbo (arXiv:2311.17042).
    "sdxl-turbo": Pipeline(
        unet={**_UNET_XL, "sample_size": 64},
        vae=_VAE_XL,
        text_encoders=(_CLIP_L, _CLIP_G),
        image_size=512,
        steps=1,
        guidance=0.0,
        schedule=_SCHEDULE_TURBO,
        pooled_width=1280,
    ),
    # For tests and for a first try on a CPU; no published networks.
    "tiny": Pipeline(
        unet=_TINY_UNET,
        vae=_TINY_VAE,
        text_encoders=(_TINY_TEXT,),
        image_size=16,
        steps=4,
        schedule=_SCHEDULE,
    ),
    "tiny-xl": Pipeline(
        unet={
            **_TINY_UNET,
            "cross_attention_dim": 64,
            "attention_head_dim": (2, 4),
            "use_linear_projection": True,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 80,
        },
        vae={**_TINY_VAE, "scaling_factor": 0.13025},
        text_encoders=(_TINY_TEXT, _TINY_TEXT),
        image_size=16,
        steps=4,
        schedule=_SCHEDULE,
        pooled_width=32,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionSettings(NetworkSettings):
    """Make images of random prompts.

    Attributes:
        model: Geometry of the networks.
        precision: Number format of weights and activations. tf32 is stored as fp32. Under fp16
            and int8 the decoder of an XL model computes in fp32, as in diffusers.
        steps: Denoising steps; by default as many as the model's documentation starts from.
        resolution: Side of the square image in pixels; by default the size trained for.
        guidance: Weight of the prompt; above 1 every step computes each image with the prompt and
            without (classifier-free guidance). By default that of the model's documentation.
        scheduler: How a step follows from the predicted noise.
        attention_slicing: Compute attention half of the heads at a time, as products and a
            softmax, which takes less memory than products alone but is not fused.
        seed: Seed of the noise and of the random prompts.
    """

    model: Model = "sd-1.5"
    precision: NetworkPrecision = "fp16"
    steps: int | None = None
    resolution: int | None = None
    guidance: float | None = None
    scheduler: Scheduler = "dpm++"
    attention_slicing: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_knobs(self, but=("guidance", "seed"))
        require_count("seed", self.seed, least=0, most=2**63 - 1)
        if self.guidance_scale != 0:
            require_positive("guidance", self.guidance_scale)
        if self.num_steps > (most := self.pipeline.schedule["num_train_timesteps"]):
            raise ConfigError(
                f"steps must be at most {most}, the noise levels that {self.model} was trained "
                f"on, got {self.num_steps}."
            )
        step, side = self.pipeline.size_step, self.image_size
        if side % step:
            below, above = side // step * step, (side // step + 1) * step
            nearest = f"{below} or {above}" if below else str(above)
            raise ConfigError(
                f"resolution must be a multiple of {step} for {self.model}, got {side}; "
                f"take {nearest}."
            )

    @property
    def pipeline(self) -> Pipeline:
        """The shape of the networks."""
        return PIPELINES[self.model]

    @property
    def num_steps(self) -> int:
        """Denoising steps per image."""
        return self.pipeline.steps if self.steps is None else self.steps

    @property
    def image_size(self) -> int:
        """Side of the image in pixels."""
        return self.pipeline.image_size if self.resolution is None else self.resolution

    @property
    def guidance_scale(self) -> float:
        """Weight of the prompt."""
        return self.pipeline.guidance if self.guidance is None else self.guidance

    @property
    def is_guided(self) -> bool:
        """Whether each step computes with the prompt and without."""
        return self.guidance_scale > 1
