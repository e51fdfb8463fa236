"""Architectures by name, and what their arithmetic does as sizes change."""

from __future__ import annotations

import pytest

from analyzers.source.arithmetic.layers import Walk, run
from analyzers.source.arithmetic.transformer import Transformer, size
from analyzers.source.knowledge.architectures import architecture, architectures
from analyzers.source.knowledge.files import key
from analyzers.source.knowledge.lookup import model_parameters, parameters_in_name


@pytest.mark.parametrize(
    ("called", "meant"),
    [
        ("ResNet-50", "resnet50"), ("resnet50.a1_in1k", "resnet50"), ("microsoft/resnet-50", "resnet50"),
        ("ViT-B/16", "vit_b_16"), ("MobileNetV2", "mobilenet_v2"), ("facebook/opt-1.3b", "opt-1.3b"),
        ("meta-llama/Llama-2-7b-hf", "llama-7b"), ("DiT-XL/2", "DiT-XL/2"), ("openai/whisper-tiny", "whisper-tiny"),
    ],
)  # fmt: skip
def test_a_model_is_known_by_the_names_people_use(called: str, meant: str) -> None:
    found = architecture(called)
    assert found is not None and found.name == meant


@pytest.mark.parametrize("called", ["", "mymodel", "resnet50 (pretrained)", "LitModel (resnet50)", "llama", "16", "."])
def test_a_name_that_says_too_little_is_not_guessed_at(called: str) -> None:
    assert architecture(called) is None


def test_numbers_in_names_are_kept_apart() -> None:
    assert key("regnet_y_1_6gf") != key("regnet_y_16gf") and key("opt-1.3b") != key("opt-13b")
    assert model_parameters("facebook/opt-13b") == pytest.approx(parameters_in_name("facebook/opt-13b"), rel=0.05)
    names = [entry.name for entry in architectures()]
    assert len({key(name) for name in names}) == len(names)


@pytest.mark.parametrize("entry", architectures(), ids=lambda entry: entry.name)
def test_every_described_model_can_be_worked_out_and_has_a_source(entry: object) -> None:
    found = architecture(entry.name)  # type: ignore[attr-defined]
    assert found is not None and len(found.source) > 10
    worked_out = found.size()
    assert worked_out.parameters > 1e6 and worked_out.forward_flops > 0 and worked_out.kept > 0
    assert worked_out.active_parameters <= worked_out.parameters


def test_a_size_written_into_a_name_agrees_with_the_architecture() -> None:
    """The two ways of knowing a model's size must not contradict each other by more than names are rounded."""
    for entry in architectures():
        written = parameters_in_name(entry.name)
        if written is not None and "8x" not in entry.name and "A3B" not in entry.name:
            assert entry.size().parameters == pytest.approx(written, rel=0.36), entry.name


def test_a_classifier_of_other_size_changes_only_its_own_weights() -> None:
    assert model_parameters("resnet50", 10) == 25557032 - 990 * 2049
    assert model_parameters("vit_b_16", 100) == 86567656 - 900 * 769
    assert model_parameters("inception_v3", 10) is None


def test_a_larger_image_costs_more_work_and_no_more_weights() -> None:
    found = architecture("resnet18")
    assert found is not None
    small, large = found.size(image=224), found.size(image=448)
    assert large.parameters == small.parameters
    assert large.forward_flops == pytest.approx(4 * small.forward_flops, rel=0.01)
    assert large.kept == pytest.approx(4 * small.kept, rel=0.01)


def test_attention_grows_with_the_square_of_the_length_and_the_rest_in_proportion() -> None:
    shape = Transformer(layers=12, width=768, heads=12, vocabulary=50257)
    short, long = size(shape, 512), size(shape, 2048)
    assert long.attention_flops == pytest.approx(16 * short.attention_flops)
    plain = short.forward_flops - short.attention_flops
    assert long.forward_flops - long.attention_flops == pytest.approx(4 * plain)
    assert long.kept_scores == pytest.approx(16 * short.kept_scores)
    assert short.kept_recomputing is not None and short.kept_recomputing < short.kept / 5


@pytest.mark.parametrize(
    "description", [[{"conv": [8, 9, 1]}], [{"nothing": 1}], [{"conv": [0]}], [{"maxpool": [9, 2]}]]
)
def test_what_can_not_be_walked_is_an_error(description: list[dict[str, object]]) -> None:
    with pytest.raises(ValueError, match=r"small|unknown|positive"):
        run(Walk(3, 0), description)
