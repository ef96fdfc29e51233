"""The cost of the diffusion workload, against counting and published sizes."""

import resource
import time
from collections import Counter
from dataclasses import replace

import pytest
import torch

from joulelab.estimator.graph.kernels import kernels_of, merged
from joulelab.estimator.tracing.trace import fake_tensors, trace, trace_program
from joulelab.workloads.diffusion import Diffusion
from joulelab.workloads.diffusion_geometry import PIPELINES
from joulelab.workloads.diffusion_parts import parts_of
from joulelab.workloads.diffusion_schedulers import _KINDS
from joulelab.workloads.diffusion_settings import DiffusionSettings

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


def cost(**knobs):
    return Diffusion(DiffusionSettings(**{"model": "tiny", "precision": "fp16", **knobs})).cost()


def matrix_flop(phase):
    return sum(
        kernel.flop * kernel.count
        for kernel in phase.kernels
        if kernel.name in {"gemm", "conv", "attention"}
    )


@pytest.mark.parametrize(("model", "published"), PUBLISHED_PARAMETERS.items())
def test_a_geometry_has_the_parameters_of_the_published_networks(model, published):
    parts = parts_of(DiffusionSettings(model=model), META)

    networks = (parts.unet, parts.vae, *parts.text_encoders)
    assert tuple(sum(p.numel() for p in network.parameters()) for network in networks) == published


def test_every_published_geometry_is_checked():
    assert PUBLISHED_PARAMETERS.keys() == PIPELINES.keys() - {"tiny", "tiny-xl"}


@pytest.mark.parametrize("scheduler", _KINDS)
def test_denoising_costs_its_steps(scheduler):
    four, twelve = (cost(steps=n, scheduler=scheduler).phase("denoising") for n in (4, 12))

    assert twelve.flop == pytest.approx(3 * four.flop)
    assert twelve.num_launches == 3 * four.num_launches
    assert twelve.work == four.work == 1


@pytest.mark.parametrize("scheduler", _KINDS)
def test_a_step_repeated_costs_the_loop(scheduler):
    """Steps differ in scalars; the first and last of some schedulers are of a lower order."""
    settings = DiffusionSettings(model="tiny", precision="fp16", steps=6, scheduler=scheduler)
    with fake_tensors():
        _, programs = Diffusion(settings).load(torch.device("cpu"))
        programs["text_encoder"]()
        whole = trace(programs["denoising"])

    counted = Diffusion(settings).cost().phase("denoising")

    assert counted.flop == pytest.approx(sum(kernel.flop for kernel in whole), rel=1e-3)
    assert counted.dram_b == pytest.approx(sum(kernel.dram_b for kernel in whole), rel=5e-3)
    assert counted.num_launches == pytest.approx(len(whole), rel=0.03)


def test_the_cost_is_that_of_the_networks_that_run():
    """But for copies, which follow from the layout in which a CPU hands over its results."""
    settings = DiffusionSettings(model="tiny", precision="fp32", steps=1)
    network, programs = Diffusion(settings).load(torch.device("cpu"))
    real = {}
    with torch.no_grad():
        for phase in ("text_encoder", "denoising", "vae"):
            program = trace_program(programs[phase], network=network, tf32_conv=False)
            real[phase] = without_copies(merged(kernels_of(program)))

    counted = Diffusion(settings).cost()

    for phase in ("text_encoder", "vae"):
        assert without_copies(counted.phase(phase).kernels) == real[phase]
    # Of the scheduler's part, the real trace has its scalars too, which a CPU computes.
    assert real["denoising"] >= without_copies(counted.phase("denoising").kernels)


def without_copies(kernels):
    each = {replace(kernel, count=1): kernel.count for kernel in kernels}
    return Counter({kernel: n for kernel, n in each.items() if kernel.name != "copy"})


@pytest.mark.parametrize("model", ["tiny", "tiny-xl"])
def test_guidance_doubles_the_batch_of_the_denoising_network(model):
    guided, plain = (cost(model=model, guidance=scale).phase("denoising") for scale in (2.0, 1.0))
    batch_of_two = cost(model=model, guidance=1.0, batch=2).phase("denoising")

    assert matrix_flop(guided) == pytest.approx(matrix_flop(batch_of_two), rel=1e-3)
    assert matrix_flop(guided) == pytest.approx(2 * matrix_flop(plain), rel=0.01)


def test_guidance_encodes_no_prompt_beside_the_prompt_unless_zeros_stand_for_it():
    phases = {
        (model, scale): matrix_flop(cost(model=model, guidance=scale).phase("text_encoder"))
        for model in ("tiny", "tiny-xl")
        for scale in (7.5, 0.0)
    }

    assert phases["tiny", 7.5] == 2 * phases["tiny", 0.0]
    assert phases["tiny-xl", 7.5] == phases["tiny-xl", 0.0]


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
