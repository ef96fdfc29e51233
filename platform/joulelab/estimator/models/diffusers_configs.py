"""Parts of published diffusion pipelines, by configuration.

Values are those of the ``config.json`` of each part on the hub, as far as they differ from the
defaults of diffusers and transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CROSS, _PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"
_UP_CROSS, _UP_PLAIN = "CrossAttnUpBlock2D", "UpBlock2D"

# stabilityai/sdxl-vae and the vae of stable-diffusion-v1-5: one geometry.
_VAE: Mapping[str, Any] = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "latent_channels": 4,
}
# openai/clip-vit-large-patch14, its text half: text_encoder of both pipelines.
_CLIP_L: Mapping[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 49408,
    "projection_dim": 768,
}
# laion/CLIP-ViT-bigG-14, its text half: text_encoder_2 of stable-diffusion-xl-base-1.0.
_CLIP_G: Mapping[str, Any] = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "vocab_size": 49408,
    "projection_dim": 1280,
    "hidden_act": "gelu",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A text-to-image pipeline.

    Attributes:
        unet: Configuration of the denoising network.
        vae: Configuration of the network that turns latents into an image.
        text_encoders: Configurations of the text encoders.
        image_size: Side of the image it was trained for, in pixels.
        steps: Denoising steps that its documentation starts from.
        pooled_width: Width of the pooled text embedding that conditions ``unet``; 0 if none.
    """

    unet: Mapping[str, Any]
    vae: Mapping[str, Any]
    text_encoders: tuple[Mapping[str, Any], ...]
    image_size: int
    steps: int = 50
    pooled_width: int = 0


PIPELINES: Mapping[str, Pipeline] = {
    # stable-diffusion-v1-5/stable-diffusion-v1-5 (arXiv:2112.10752).
    "stable-diffusion-1.5": Pipeline(
        unet={
            "sample_size": 64,
            "block_out_channels": (320, 640, 1280, 1280),
            "down_block_types": (_CROSS, _CROSS, _CROSS, _PLAIN),
            "up_block_types": (_UP_PLAIN, _UP_CROSS, _UP_CROSS, _UP_CROSS),
            "layers_per_block": 2,
            "cross_attention_dim": 768,
            "attention_head_dim": 8,
        },
        vae={**_VAE, "sample_size": 512},
        text_encoders=({**_CLIP_L, "hidden_act": "quick_gelu"},),
        image_size=512,
    ),
    # stabilityai/stable-diffusion-xl-base-1.0 (arXiv:2307.01952).
    "stable-diffusion-xl": Pipeline(
        unet={
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
        },
        vae={**_VAE, "sample_size": 1024},
        text_encoders=({**_CLIP_L, "hidden_act": "quick_gelu"}, _CLIP_G),
        image_size=1024,
        pooled_width=1280,
    ),
}
