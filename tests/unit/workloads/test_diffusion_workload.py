"""The diffusion workload makes the images that the pipelines of diffusers make."""

import string

import diffusers
import pytest
import torch
from transformers import CLIPTokenizer

from joulelab.errors import ConfigError
from joulelab.workloads import accelerator
from joulelab.workloads.diffusion import Diffusion
from joulelab.workloads.diffusion_network import TextToImage
from joulelab.workloads.diffusion_parts import decoder_dtype, parts_of
from joulelab.workloads.diffusion_schedulers import _KINDS, scheduler_of
from joulelab.workloads.diffusion_settings import DiffusionSettings

CPU = torch.device("cpu")
TEXTS = ["a small cat", "a tall house", "rain"]


@pytest.fixture(autouse=True)
def one_thread():
    """Keep tiny operators from waiting for threads of a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(**knobs):
    return DiffusionSettings(**{"model": "tiny", "precision": "fp32", "steps": 3, **knobs})


def parts(settings):
    with accelerator.seeded(5, CPU):
        return parts_of(settings, CPU)


def images(settings, texts=TEXTS):
    workload = Diffusion(settings)
    workload.prepare()
    made = workload.images(texts)
    workload.close()
    return made


def published_pipeline(networks, settings, tokenizer=None):
    """A pipeline of diffusers of the same networks; without tokenizer it takes embeddings."""
    shared = {
        "unet": networks.unet,
        "vae": networks.vae,
        "text_encoder": networks.text_encoders[0],
        "tokenizer": tokenizer,
        "scheduler": scheduler_of(settings.scheduler, networks.schedule),
    }
    if len(networks.text_encoders) == 2:
        second = {"text_encoder_2": networks.text_encoders[1], "tokenizer_2": None}
        pipeline = diffusers.StableDiffusionXLPipeline(
            **shared, **second, add_watermarker=False, force_zeros_for_empty_prompt=True
        )
    else:
        pipeline = diffusers.StableDiffusionPipeline(
            **shared, safety_checker=None, feature_extractor=None, requires_safety_checker=False
        )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def embeddings(settings, conditions):
    """The conditions under the names of a pipeline's arguments."""
    halves = [conditions.text]
    pooled = [conditions.added["text_embeds"]] if conditions.added else []
    if settings.is_guided:
        halves = conditions.text.chunk(2)
        pooled = [half for whole in pooled for half in whole.chunk(2)]
    names = ["negative_prompt_embeds", "prompt_embeds"][-len(halves) :]
    named = dict(zip(names, halves, strict=True))
    pooled_names = ["negative_pooled_prompt_embeds", "pooled_prompt_embeds"][-len(halves) :]
    return named | (dict(zip(pooled_names, pooled, strict=True)) if pooled else {})


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
@pytest.mark.parametrize("scheduler", _KINDS)
@pytest.mark.parametrize(("model", "guidance"), [("tiny", 7.5), ("tiny-xl", 5.0), ("tiny", 0.0)])
def test_the_images_are_those_of_the_pipeline_of_diffusers(model, guidance, scheduler):
    settings = tiny(model=model, guidance=guidance, scheduler=scheduler)
    networks = parts(settings)
    stages = TextToImage(
        networks,
        settings,
        prompts=networks.tokens(TEXTS),
        generators=[torch.Generator() for _ in TEXTS],
        seed=11,
    )
    with torch.inference_mode():
        stages.encode()
        stages.denoising()
        made = stages.decode()

        expected = published_pipeline(networks, settings)(
            **embeddings(settings, stages.denoising.conditions),
            generator=[torch.Generator().manual_seed(11 + index) for index in range(len(TEXTS))],
            num_inference_steps=3,
            guidance_scale=guidance,
            height=settings.image_size,
            width=settings.image_size,
            output_type="pt",
        ).images

    assert torch.allclose(made, expected, atol=1e-5)
    assert made.std() > 0.01


class OneTokenPerByte:
    """Stands for the tokenizer that random networks have not."""

    model_max_length = 77

    def __init__(self, networks):
        self._networks = networks

    def tokenize(self, text):
        return list(text)

    added_tokens_encoder = ()

    def __call__(self, text, **_):
        texts = [text] if isinstance(text, str) else text
        return type("Tokens", (), {"input_ids": self._networks.tokens(texts)[0]})


@pytest.mark.parametrize("model", ["tiny", "tiny-xl"])
def test_the_conditions_are_those_of_the_pipeline_of_diffusers(model):
    settings = tiny(model=model)
    networks = parts(settings)
    pipeline = published_pipeline(networks, settings)
    pipeline.tokenizer = pipeline.tokenizer_2 = OneTokenPerByte(networks)
    stages = TextToImage(
        networks, settings, prompts=networks.tokens(TEXTS), generators=[torch.Generator()], seed=0
    )

    with torch.inference_mode():
        stages.encode()
        order = [1, 0] if model == "tiny" else [1, 0, 3, 2]
        encoded = pipeline.encode_prompt(
            TEXTS, device=CPU, num_images_per_prompt=1, do_classifier_free_guidance=True
        )

    conditions = stages.denoising.conditions
    wholes = [conditions.text, *([conditions.added["text_embeds"]] if conditions.added else [])]
    halves = [half for whole in wholes for half in whole.chunk(2)]
    expected = [encoded[index] for index in order]
    assert all(torch.equal(*pair) for pair in zip(halves, expected, strict=True))


def test_images_do_not_depend_on_the_batch():
    alone = images(tiny(batch=1, scheduler="euler-a"))
    together = images(tiny(batch=2, scheduler="euler-a"))

    assert torch.allclose(alone, together, atol=1e-5)
    assert alone.shape == (3, 3, 16, 16)


@pytest.mark.parametrize(
    "change", [{"steps": 5}, {"guidance": 1.5}, {"seed": 1}, {"scheduler": "euler-a"}]
)
def test_images_change_with_what_changes_them(change):
    assert not torch.allclose(images(tiny()), images(tiny(**change)), atol=1e-4)


def test_images_change_with_the_text():
    first, second = images(tiny(guidance=50.0), ["aaaa", "zzzz"])

    assert not torch.allclose(first, second, atol=1e-4)


def test_slicing_attention_changes_no_image():
    whole, sliced = images(tiny()), images(tiny(attention_slicing=True))

    assert torch.allclose(whole, sliced, atol=1e-4)


@pytest.mark.parametrize("scheduler", _KINDS)
def test_every_run_denoises_the_same_noise(scheduler):
    workload = Diffusion(tiny(scheduler=scheduler, batch=2))
    network, programs = workload.load(CPU)
    with torch.inference_mode():
        programs["text_encoder"]()
        runs = []
        for _ in range(2):
            programs["denoising"]()
            runs.append(programs["denoising"].latents)

    assert torch.equal(*runs)
    assert not torch.equal(*runs[0])
    assert not any(module.training for module in network.modules())


def test_images_need_a_prepared_workload():
    with pytest.raises(ConfigError, match="prepared"):
        Diffusion(tiny()).images(["a cat"])


@pytest.mark.parametrize(
    ("model", "precision", "decoder"),
    [
        ("sdxl", torch.float16, torch.float32),
        ("sdxl", torch.bfloat16, torch.bfloat16),
        ("sd-1.5", torch.float16, torch.float16),
    ],
)
def test_only_a_decoder_that_overflows_in_half_precision_is_kept_in_single(
    model, precision, decoder
):
    assert decoder_dtype(DiffusionSettings(model=model).pipeline, precision) == decoder


def test_the_latents_of_half_precision_are_decoded_in_single_precision():
    made = images(tiny(model="tiny-xl", precision="fp16"), TEXTS[:1])

    assert torch.isfinite(made).all()


def saved(settings, folder):
    """A pipeline as it is published, in a folder."""
    networks = parts(settings)
    published_pipeline(networks, settings, letters()).save_pretrained(folder)
    return networks


def letters():
    """A tokenizer that knows letters; at the end of a word they are tokens of their own."""
    known = [f"{letter}{end}" for end in ("", "</w>") for letter in string.ascii_lowercase]
    vocabulary = {token: index for index, token in enumerate(known)}
    vocabulary |= {"<|startoftext|>": 998, "<|endoftext|>": 999}
    return CLIPTokenizer(vocab=vocabulary, merges=[])


def test_pretrained_weights_of_the_geometry_are_loaded(tmp_path):
    networks = saved(tiny(), tmp_path)

    loaded = parts_of(tiny(weights=str(tmp_path)), CPU)

    expected = dict(networks.network.named_parameters())
    found = dict(loaded.network.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not any(module.training for module in loaded.network.modules())


def test_texts_are_tokenized_by_the_tokenizer_of_the_weights(tmp_path):
    saved(tiny(), tmp_path)

    (tokens,) = parts_of(tiny(weights=str(tmp_path)), CPU).tokens(["ab c"])

    first, last = 0, len(string.ascii_lowercase)  # of the letters inside and at the end of words
    assert tokens.tolist() == [[998, first, last + 1, last + 2, *[999] * 73]]


def test_weights_of_another_geometry_are_refused_with_what_differs(tmp_path):
    saved(tiny(), tmp_path)

    with pytest.raises(ConfigError, match=r"block_out_channels \[32, 64\] \(not \(320, 640"):
        parts_of(DiffusionSettings(model="sd-1.5", weights=str(tmp_path)), CPU)


def test_weights_that_are_not_there_are_refused_with_what_is_allowed(tmp_path):
    with pytest.raises(ConfigError, match=r"weights must be a folder.*absent"):
        parts_of(tiny(weights=str(tmp_path / "absent")), CPU)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"resolution": 500}, "multiple of 64 for sd-1.5, got 500; take 448 or 512"),
        ({"resolution": 20}, "multiple of 64 for sd-1.5, got 20; take 64"),
        ({"model": "sdxl", "resolution": 1000}, "multiple of 32 for sdxl, got 1000; take 992 or"),
        ({"scheduler": "dpm+"}, r"scheduler 'dpm\+'. Did you mean 'dpm\+\+'"),
        ({"model": "sd1.5"}, "Did you mean 'sd-1.5'"),
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 1001}, "steps must be at most 1000"),
        ({"guidance": -1.0}, "guidance must be a positive number, got -1.0"),
        ({"batch": 0}, "batch must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_a_wrong_knob_is_one_line_that_says_what_is_allowed(knobs, message):
    with pytest.raises(ConfigError, match=message):
        Diffusion.from_knobs(knobs)
