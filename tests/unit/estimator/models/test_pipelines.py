"""Text-to-image pipelines of diffusers, against published sizes of their parts."""

import pytest

from joulelab.errors import ConfigError
from joulelab.estimator.models import trace_model
from joulelab.tracing.program import MATRIX_KINDS


@pytest.fixture(scope="module")
def stable_diffusion():
    return trace_model("stable-diffusion-1.5", batch=1, precision="fp16", steps=20)


def test_a_pipeline_has_a_text_encoder_many_steps_and_a_decoder(stable_diffusion):
    phases = {phase.phase: phase.count for phase in stable_diffusion.phases}

    assert phases == {"text encoder": 1, "denoising": 20, "decoder": 1}
    assert {phase.work for phase in stable_diffusion.phases} == {1.0}


def test_every_phase_holds_the_weights_of_all_parts(stable_diffusion):
    # Parameters of the published parts: UNet 859,520,964; CLIP text 123,060,480 and its
    # projection 768 x 768; VAE 83,653,863.
    weight_b = 2 * (859_520_964 + 123_060_480 + 768 * 768 + 83_653_863)

    for phase in stable_diffusion.phases:
        assert phase.program.parameter_b == pytest.approx(weight_b, rel=1e-5)


def test_a_step_denoises_with_and_without_the_prompt(stable_diffusion):
    step = stable_diffusion.phases[1].program

    products = sum(each.flop for each in step.operators if each.kind in MATRIX_KINDS)
    # Published: 0.8 TFLOP (0.4 TMAC) for one pass of the UNet at 64 x 64.
    assert products == pytest.approx(2 * 0.8e12, rel=0.03)


def test_an_image_that_does_not_fit_the_latents_is_refused():
    with pytest.raises(ConfigError, match="multiple of 64"):
        trace_model("stable-diffusion-1.5", batch=1, precision="fp16", image_size=500)
