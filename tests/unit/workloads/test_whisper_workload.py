"""Whisper recognises as transformers does, counts audio seconds, and costs what counting says."""

import numpy as np
import pytest
import torch
from transformers import GenerationMixin
from transformers.modeling_outputs import BaseModelOutput

from joulelab.errors import ConfigError
from joulelab.estimator.models import trace_model
from joulelab.tracing.trace import fake_tensors, trace
from joulelab.workloads import accelerator, whisper_network
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.whisper import GEOMETRIES, START_TOKENS, Whisper, WhisperSettings

CPU = torch.device("cpu")
# arXiv:2212.04356, table 1; of large-v3 its model card.
PUBLISHED_MILLIONS = {"tiny": 39, "base": 74, "small": 244, "medium": 769, "large-v3": 1550}


def toy(**knobs):
    defaults = {"model": "toy", "precision": "fp32", "tokens_per_second": 0.2}
    return WhisperSettings(**{**defaults, **knobs})


def recognition_of(settings):
    with accelerator.seeded(7, CPU):
        network = Whisper(settings).network(CPU)
    return Whisper(settings).recognition(network)


@pytest.mark.parametrize(("beams", "batch"), [(1, 2), (3, 2)])
def test_decoding_finds_the_text_of_transformers_own_beam_search(beams, batch):
    settings = toy(batch=batch, beams=beams)
    recognition = recognition_of(settings)
    network = recognition.network
    # Tied to the embedding, the output layer of a random network repeats what it has read.
    network.proj_out = torch.nn.Linear(64, 128, bias=False)
    with torch.inference_mode():
        expected = GenerationMixin.generate(
            network,
            encoder_outputs=BaseModelOutput(network.model.encoder(recognition.features)[0]),
            decoder_input_ids=torch.full((batch, START_TOKENS), 127),
            max_new_tokens=settings.new_tokens,
            num_beams=beams,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=126,
        )

        recognition.decode()

    assert recognition.texts[::beams].tolist() == expected.tolist()
    assert len(set(expected[:, START_TOKENS:].flatten().tolist())) > 1


def test_every_decoding_starts_anew_and_finds_the_same_text():
    recognition = recognition_of(toy(beams=2))
    texts = []

    with torch.inference_mode():
        for _ in range(2):
            recognition.decode()
            texts.append(recognition.texts.tolist())

    assert texts[0] == texts[1]
    assert len(texts[0][0]) == START_TOKENS + 6


def test_a_recording_of_two_windows_counts_its_seconds_not_their_padding():
    workload = Whisper(toy(batch=2, audio_seconds=45.0, tokens_per_second=0.1))
    workload.prepare()

    seconds = {phase: workload.run(phase) for phase in workload.phases}
    cost = cached_cost(workload)

    assert seconds == {"encoder": 90.0, "decoder": 90.0}
    assert [phase.work for phase in cost.phases] == [90.0, 90.0]


def test_a_window_costs_the_same_however_little_audio_it_holds():
    full, short = (
        cached_cost(Whisper(toy(audio_seconds=seconds, tokens_per_second=0.1))).phase("encoder")
        for seconds in (30.0, 3.0)
    )

    assert full.flop == short.flop
    assert (full.work, short.work) == (30.0, 3.0)


@pytest.mark.parametrize("model", ["tiny", "base"])
def test_the_encoder_multiplies_what_the_closed_form_says(model):
    geometry = GEOMETRIES[model]
    width, layers = geometry["d_model"], geometry["encoder_layers"]
    bins = geometry.get("num_mel_bins", 80)

    encoder = cached_cost(Whisper(WhisperSettings(model=model, batch=2))).phase("encoder")

    convolutions = 2 * 3 * (3000 * bins * width + 1500 * width**2)
    products = layers * 2 * 1500 * 12 * width**2
    attention = layers * 4 * 1500**2 * width
    on_tensor_cores = sum(k.flop * k.count for k in encoder.kernels if k.pipe == "tensor_fp16")
    assert on_tensor_cores == 2 * (convolutions + products + attention)
    assert encoder.flop == pytest.approx(on_tensor_cores, rel=0.02)


@pytest.mark.parametrize("beams", [1, 2])
def test_the_cost_of_decoding_is_the_sum_over_its_steps(beams):
    settings = toy(beams=beams, batch=2, tokens_per_second=0.3)
    with fake_tensors():
        network = Whisper(settings).network(CPU)
        recognition = Whisper(settings).recognition(network)
        recognition.encode()
        stepwise = trace(recognition.decode, tf32_conv=False)

    decoder = cached_cost(Whisper(settings)).phase("decoder")

    assert decoder.flop == pytest.approx(sum(kernel.flop for kernel in stepwise), rel=1e-9)
    assert decoder.dram_b == pytest.approx(sum(kernel.dram_b for kernel in stepwise), rel=1e-9)
    assert decoder.num_launches == len(stepwise)


def test_quantised_layers_are_linear_and_the_rest_stays_in_half_precision():
    model = trace_model("workload:whisper", batch=1, precision="int8", model="toy")

    pipes = {}
    for phase in model.phases:
        for operator in phase.program.operators:
            if operator.kind in {"gemm", "conv", "attention"}:
                pipes.setdefault(operator.kind, set()).add(operator.pipe)
    # Of products only the output layer, which shares its weights, stays in half precision.
    assert pipes == {
        "gemm": {"tensor_int8", "tensor_fp16"},
        "conv": {"tensor_fp16"},
        "attention": {"tensor_fp16"},
    }


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_it_recognises_in_fewer_bits(precision):
    workload = Whisper(toy(precision=precision, tokens_per_second=0.1))

    workload.prepare()

    assert workload.run("decoder") == 30.0


@pytest.mark.parametrize(("model", "millions"), PUBLISHED_MILLIONS.items())
def test_a_network_has_the_parameters_of_the_published_one(model, millions):
    network = Whisper(WhisperSettings(model=model)).network(torch.device("meta"))

    assert network.num_parameters() == pytest.approx(millions * 1e6, rel=0.04)


def test_audio_swells_and_ebbs_and_its_low_notes_are_the_loudest():
    audio = whisper_network.speech_like(4.0, 16000, seed=0)

    power = np.abs(np.fft.rfft(audio)) ** 2
    low, high = power[1000:4000].mean(), power[10000:13000].mean()  # 250-1000 Hz, 2500-3250 Hz
    syllable = audio[: 4 * 4000].reshape(4, 4000)
    loudness = syllable.std(axis=0)
    assert np.abs(audio).max() == pytest.approx(0.9)
    assert 2 < low / high < 12  # 1/f: 625 Hz against 2875 Hz
    assert loudness[1800:2200].mean() > 3 * loudness[:200].mean()


def test_recordings_differ_and_short_ones_are_padded_with_silence():
    features = recognition_of(toy(batch=2, audio_seconds=3.0)).features

    assert features.shape == (2, 80, 3000)
    assert not torch.equal(features[0], features[1])
    assert features[:, :, :290].std() > 0.1
    assert features[:, :, 310:].unique().numel() <= 2


def test_weights_of_the_geometry_are_loaded_and_others_refused(tmp_path):
    settings = toy()
    original = recognition_of(settings)
    original.network.save_pretrained(tmp_path)

    loaded = recognition_of(toy(weights=str(tmp_path)))

    assert torch.equal(
        loaded.network.model.encoder.conv1.weight, original.network.model.encoder.conv1.weight
    )
    with pytest.raises(ConfigError, match=r"d_model 64 \(not 384\)"):
        Whisper(WhisperSettings(model="tiny", weights=str(tmp_path), precision="fp32")).prepare()


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"model": "larg-v3"}, "Did you mean 'large-v3'"),
        ({"audio_seconds": 0.0}, "audio_seconds must be a positive number"),
        ({"tokens_per_second": 20.0}, r"at most 14\.8, 444 tokens in a window, got 20"),
    ],
)
def test_a_knob_that_cannot_be_is_answered_with_what_can(knobs, message):
    with pytest.raises(ConfigError, match=message):
        Whisper.from_knobs(knobs)
