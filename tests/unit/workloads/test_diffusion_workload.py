"""The diffusion workload makes the images of diffusers, at the cost that counting says."""

import resource
import string
import time
from collections import Counter
from dataclasses import replace
from functools import cache

import diffusers
import pytest
import torch
from transformers import CLIPTokenizer

from joulelab.errors import ConfigError
from joulelab.tracing.kernels import kernels_of, merged
from joulelab.tracing.trace import fake_tensors, trace, trace_program
from joulelab.workloads import accelerator
from joulelab.workloads.diffusion import Diffusion
from joulelab.workloads.diffusion_network import TextToImage
from joulelab.workloads.diffusion_parts import _KINDS, decoder_dtype, scheduler_of
from joulelab.workloads.diffusion_settings import PIPELINES, DiffusionSettings
from joulelab.workloads.disk_cache import cached_cost

CPU = torch.device("cpu")
META = torch.device("meta")
# Sums of the tensors in the published checkpoints: UNet, VAE, text encoders.
SD_1 = (859_520_964, 83_653_863, 123_060_480)
SD_2 = (865_910_724, 83_653_863, 340_387_840)
SDXL = (2_567_463_684, 83_653_863, 123_060_480, 694_659_840)
PUBLISHED_PARAMETERS = {
    "sd-1.4": SD_1,
    "sd-1.5": SD_1,
    "sd-2.1": SD_2,
    "sd-turbo": SD_2,
    "sdxl": SDXL,
    "sdxl-turbo": SDXL,
}
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
        return Diffusion(settings).network(CPU)


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


@cache
def plain_images():
    return images(tiny())


@pytest.mark.parametrize(
    "change", [{"steps": 5}, {"guidance": 1.5}, {"seed": 1}, {"scheduler": "euler-a"}]
)
def test_images_change_with_what_changes_them(change):
    assert not torch.allclose(plain_images(), images(tiny(**change)), atol=1e-4)


def test_images_change_with_the_text():
    first, second = images(tiny(guidance=50.0), ["aaaa", "zzzz"])

    assert not torch.allclose(first, second, atol=1e-4)


def test_slicing_attention_changes_no_image():
    whole, sliced = plain_images(), images(tiny(attention_slicing=True))

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

    loaded = Diffusion(tiny(weights=str(tmp_path))).network(CPU)

    expected = dict(networks.named_parameters())
    found = dict(loaded.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not any(module.training for module in loaded.modules())


def test_texts_are_tokenized_by_the_tokenizer_of_the_weights(tmp_path):
    saved(tiny(), tmp_path)

    (tokens,) = Diffusion(tiny(weights=str(tmp_path))).network(CPU).tokens(["ab c"])

    first, last = 0, len(string.ascii_lowercase)  # of the letters inside and at the end of words
    assert tokens.tolist() == [[998, first, last + 1, last + 2, *[999] * 73]]


def test_weights_of_another_geometry_are_refused_with_what_differs(tmp_path):
    saved(tiny(), tmp_path)

    with pytest.raises(ConfigError, match=r"block_out_channels \[32, 64\] \(not \[320, 640"):
        Diffusion(DiffusionSettings(model="sd-1.5", weights=str(tmp_path))).network(CPU)


def test_weights_that_are_not_there_are_refused_with_what_is_allowed(tmp_path):
    with pytest.raises(ConfigError, match=r"weights must be a folder.*absent"):
        Diffusion(tiny(weights=str(tmp_path / "absent"))).network(CPU)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"resolution": 500}, "multiple of 64 for sd-1.5, got 500; take 448 or 512"),
        ({"resolution": 20}, "multiple of 64 for sd-1.5, got 20; take 64"),
        ({"model": "sdxl", "resolution": 1000}, "multiple of 32 for sdxl, got 1000; take 992 or"),
        ({"scheduler": "dpm+"}, r"scheduler 'dpm\+'. Did you mean 'dpm\+\+'"),
        ({"model": "sd1.5"}, "Did you mean 'sd-1.5'"),
        ({"steps": 1001}, "steps must be at most 1000"),
        ({"guidance": -1.0}, "guidance must be a positive number, got -1.0"),
    ],
)
def test_a_wrong_knob_is_one_line_that_says_what_is_allowed(knobs, message):
    with pytest.raises(ConfigError, match=message):
        Diffusion.from_knobs(knobs)


def cost(**knobs):
    return counted(DiffusionSettings(**{"model": "tiny", "precision": "fp16", **knobs}))


@cache
def counted(settings):
    return cached_cost(Diffusion(settings))


def matrix_flop(phase):
    return sum(
        kernel.flop * kernel.count
        for kernel in phase.kernels
        if kernel.name in {"gemm", "conv", "attention"}
    )


@pytest.mark.parametrize(("model", "published"), PUBLISHED_PARAMETERS.items())
def test_a_geometry_has_the_parameters_of_the_published_networks(model, published):
    parts = Diffusion(DiffusionSettings(model=model)).network(META)

    networks = (parts.unet, parts.vae, *parts.text_encoders)
    assert tuple(sum(p.numel() for p in network.parameters()) for network in networks) == published


def test_every_published_geometry_is_checked():
    assert PUBLISHED_PARAMETERS.keys() == PIPELINES.keys() - {"tiny", "tiny-xl"}


def test_denoising_costs_its_steps():
    six, eighteen = (cost(steps=n).phase("denoising") for n in (6, 18))

    assert eighteen.flop == pytest.approx(3 * six.flop)
    assert eighteen.num_launches == 3 * six.num_launches
    assert eighteen.work == six.work == 1


@pytest.mark.parametrize("scheduler", _KINDS)
def test_a_step_repeated_costs_the_loop(scheduler):
    """Steps differ in scalars; the first and last of some schedulers are of a lower order."""
    settings = DiffusionSettings(model="tiny", precision="fp16", steps=4, scheduler=scheduler)
    with fake_tensors():
        _, programs = Diffusion(settings).load(torch.device("cpu"))
        programs["text_encoder"]()
        whole = trace(programs["denoising"])

    expected = cost(steps=4, scheduler=scheduler).phase("denoising")

    assert expected.flop == pytest.approx(sum(kernel.flop for kernel in whole), rel=1e-3)
    assert expected.dram_b == pytest.approx(sum(kernel.dram_b for kernel in whole), rel=5e-3)
    assert expected.num_launches == pytest.approx(len(whole), rel=0.03)


def test_the_cost_is_that_of_the_networks_that_run():
    """But for copies, which follow from the layout in which a CPU hands over its results."""
    settings = DiffusionSettings(model="tiny", precision="fp32", steps=1)
    network, programs = Diffusion(settings).load(torch.device("cpu"))
    real = {}
    with torch.no_grad():
        for phase in ("text_encoder", "denoising", "vae"):
            program = trace_program(programs[phase], network=network, tf32_conv=False)
            real[phase] = without_copies(merged(kernels_of(program)))

    expected = Diffusion(settings).cost()

    for phase in ("text_encoder", "vae"):
        assert without_copies(expected.phase(phase).kernels) == real[phase]
    # Of the scheduler's part, the real trace has its scalars too, which a CPU computes.
    assert real["denoising"] >= without_copies(expected.phase("denoising").kernels)


def without_copies(kernels):
    each = {replace(kernel, count=1): kernel.count for kernel in kernels}
    return Counter({kernel: n for kernel, n in each.items() if kernel.name != "copy"})


@pytest.mark.parametrize("model", ["tiny", "tiny-xl"])
def test_guidance_doubles_the_batch_of_the_denoising_network(model):
    guided, plain = (cost(model=model, guidance=scale).phase("denoising") for scale in (7.5, 1.0))
    batch_of_two = cost(model=model, guidance=1.0, batch=2).phase("denoising")

    assert matrix_flop(guided) == pytest.approx(matrix_flop(batch_of_two), rel=1e-3)
    assert matrix_flop(guided) == pytest.approx(2 * matrix_flop(plain), rel=0.01)


def test_guidance_encodes_no_prompt_beside_the_prompt_unless_zeros_stand_for_it():
    phases = {
        (model, scale): matrix_flop(cost(model=model, guidance=scale).phase("text_encoder"))
        for model in ("tiny", "tiny-xl")
        for scale in (7.5, 1.0)
    }

    assert phases["tiny", 7.5] == 2 * phases["tiny", 1.0]
    assert phases["tiny-xl", 7.5] == phases["tiny-xl", 1.0]


def test_a_decoder_works_in_proportion_to_the_area():
    small, large = (cost(resolution=side).phase("vae") for side in (32, 64))
    # All but the attention over the latents, 16 x 16 and 32 x 32 positions of 32 channels.
    attention = [4 * 32 * positions**2 for positions in (16 * 16, 32 * 32)]

    convolved = [matrix_flop(phase) - a for phase, a in zip((small, large), attention, strict=True)]
    assert convolved[1] == pytest.approx(4 * convolved[0])


def test_slicing_attention_takes_launches_but_no_more_products():
    whole, sliced = (cost(attention_slicing=on).phase("denoising") for on in (False, True))

    assert matrix_flop(sliced) == pytest.approx(matrix_flop(whole), rel=1e-6)
    assert sliced.num_launches > whole.num_launches


@pytest.mark.parametrize(
    ("model", "precision", "pipe"),
    [
        ("tiny", "fp16", "tensor_fp16"),
        ("tiny-xl", "fp16", "tensor_tf32"),  # kept in fp32; PyTorch lets its convolutions
        ("tiny-xl", "bf16", "tensor_bf16"),
        ("tiny-xl", "fp32", "fp32"),
    ],
)
def test_convolutions_of_the_decoder_run_where_its_precision_does(model, precision, pipe):
    decoder = cost(model=model, precision=precision).phase("vae")

    assert {kernel.pipe for kernel in decoder.kernels if kernel.name == "conv"} == {pipe}


def test_an_xl_pipeline_is_traced_whole_in_seconds_and_megabytes():
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start_s = time.process_time()

    whole = Diffusion(DiffusionSettings(model="sdxl", steps=30)).cost()

    assert time.process_time() - start_s < 60
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert grown_mib < 1000
    # arXiv:2307.01952's network: 2.99 T multiply-adds for one pass at 128 x 128 (the SDXL entry
    # of common profilers leaves attention's own products out, about a tenth).
    assert matrix_flop(whole.phase("denoising")) / 60 == pytest.approx(2 * 2.99e12, rel=0.15)
    weight_b = 2 * (SDXL[0] + SDXL[2] + SDXL[3]) + 4 * SDXL[1]
    assert whole.resident_b > weight_b
