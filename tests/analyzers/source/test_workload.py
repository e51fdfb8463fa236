"""What follows from facts: steps, tokens, operations, memory, a first step time; and what does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.source.arithmetic.memory import Setup, memory_mib, optimizer_bytes
from analyzers.source.knowledge.architectures import architecture
from analyzers.source.workload import QUANTITIES, workload
from analyzers.types import FACT_NAMES, Fact, JsonValue, SourceFacts


def facts(**values: JsonValue) -> SourceFacts:
    """Facts with these values, all sure."""
    return SourceFacts({name: Fact(value, 0.9) for name, value in values.items()})


IMAGENET = facts(
    workload_type="train", model="resnet50", model_params_approx=25557032, dataset="ImageNet", image_size=224,
    batch_size_per_gpu=256, global_batch_size=2048, grad_accum=1, num_gpus=8, epochs=90, iter_type="epoch",
    precision="amp-fp16", optimizer="SGD", parallelism=["ddp"], activation_checkpointing=False,
)  # fmt: skip


def test_a_well_known_run_comes_out_as_published() -> None:
    found = workload(IMAGENET, "a100")
    assert found.value("steps") == 90 * 626
    assert found.value("flops_per_step") == pytest.approx(2048 * 3 * 2 * 4.089e9, rel=0.001)
    # NVIDIA DeepLearningExamples: 16,621 images a second on 8 A100, so 123 ms a step.
    step = found.derived["step_time_s"]
    assert step.low < 2048 / 16_621 < step.high
    # The same examples train with 256 images on a V100 of 16 GB in mixed precision.
    memory = found.derived["gpu_memory_mib"]
    assert 8 * 1024 < memory.value < 25 * 1024 and memory.low < 16 * 1024
    run = found.derived["run_time_s"]
    assert run.low < 5 * 3600 < run.high


def test_tokens_and_operations_of_gpt3_are_those_of_its_paper() -> None:
    """3.14e23 operations for 300 billion tokens at 3.2 million a step (Brown et al. 2020, tables 2.1 and D.1)."""
    found = workload(facts(
        workload_type="train", model="GPT-3 175B", seq_len=2048, global_batch_size=1563, max_steps=93750,
    ))  # fmt: skip
    assert found.value("tokens_per_step") == pytest.approx(3.2e6, rel=0.001)
    assert found.value("tokens") == pytest.approx(300e9, rel=0.001)
    assert found.value("flops") == pytest.approx(3.14e23, rel=0.05)


def test_nothing_follows_from_nothing() -> None:
    assert workload(SourceFacts()).derived == {}
    assert workload(facts(workload_type="train", model="Net"), "a100", 8).derived == {}


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        ("epochs", {"steps", "flops", "run_time_s"}),
        ("dataset", {"dataset_samples", "steps", "flops", "run_time_s"}),
        ("num_gpus", {"step_time_s", "run_time_s"}),
        ("batch_size_per_gpu", set()),
    ],
)
def test_what_rests_on_an_unknown_fact_is_absent(without: str, gone: set[str]) -> None:
    known = workload(IMAGENET, "a100")
    fewer = workload(SourceFacts({n: f for n, f in IMAGENET.facts.items() if n != without}), "a100")
    assert set(known.derived) - set(fewer.derived) == gone


def test_without_a_known_gpu_type_there_is_no_time() -> None:
    assert "step_time_s" not in workload(IMAGENET).derived
    assert "step_time_s" not in workload(IMAGENET, "a100|v100").derived


def test_the_gpu_type_is_the_one_the_launch_asks_for_unless_another_is_given() -> None:
    asked = SourceFacts(IMAGENET.facts, request={"gpu_type": Fact("v100", 0.9)})
    assert workload(asked).value("step_time_s") == workload(IMAGENET, "v100").value("step_time_s")
    assert workload(asked, "h100").value("step_time_s") == workload(IMAGENET, "h100").value("step_time_s")


def test_a_count_that_contradicts_the_name_is_believed() -> None:
    """A class of the program's own that is called like a published model and is not one."""
    other = SourceFacts({**IMAGENET.facts, "model_params_approx": Fact(272_474, 0.9)})
    found = workload(other, "a100")
    assert found.value("parameters") == 272_474 and "flops_per_step" not in found.derived


def test_a_variant_for_small_images_is_not_taken_for_the_network_it_is_named_after() -> None:
    """ResNet-18 for CIFAR has a 3x3 stem without strides: 11,173,962 parameters and 15 times the work."""
    small = {
        **IMAGENET.facts,
        "model": Fact("ResNet18", 0.9),
        "image_size": Fact(32, 0.9),
        "dataset": Fact("CIFAR-10", 0.9),
    }
    variant = workload(SourceFacts({**small, "model_params_approx": Fact(11_173_962, 0.9)}))
    assert "flops_per_step" not in variant.derived and variant.value("parameters") == 11_173_962
    same = workload(SourceFacts({**small, "model_params_approx": Fact(11_181_642, 0.9)}))
    assert same.value("flops_per_step") == pytest.approx(2048 * 3 * 2 * 1.814e9 / 49, rel=0.05)


def test_evaluation_has_no_steps_of_training() -> None:
    judged = SourceFacts({**IMAGENET.facts, "workload_type": Fact("eval", 0.9)})
    found = workload(judged, "a100")
    assert not {"steps", "flops_per_step", "step_time_s"} & set(found.derived)
    assert found.derived["gpu_memory_mib"].value < workload(IMAGENET).derived["gpu_memory_mib"].value / 3


def test_a_split_model_has_no_memory_estimate() -> None:
    split = SourceFacts({**IMAGENET.facts, "parallelism": Fact(["tp", "ddp"], 0.9)})
    assert "gpu_memory_mib" not in workload(split, "a100").derived


# --- memory -------------------------------------------------------------------------------------------------------


def test_model_states_are_those_of_zero() -> None:
    """16 bytes a parameter with Adam, and what stages 1 to 3 leave of them on 64 GPUs (arXiv:1910.02054, figure 1).

    The paper counts 16-bit weights and gradients beside 32-bit states: 120, 31.4, 16.6 and 1.9 GB for 7.5e9.
    """
    model = architecture("gpt2")
    assert model is not None
    small = model.size(length=1)
    large = type(small)("transformer", 7.5e9, 1.0, kept=0.0, active_parameters=7.5e9)
    for sharding, gigabytes in ((0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)):
        needed = memory_mib(large, Setup(1, 64, "bf16", "AdamW", sharding, recomputing=False))
        assert needed.low * 1.048576e-3 <= 1.15 * gigabytes and needed.high * 1.048576e-3 >= gigabytes


def test_optimizers_keep_what_they_are_known_to() -> None:
    assert optimizer_bytes("AdamW").value == 8 and optimizer_bytes("adamw_bnb_8bit").value < 2.5
    assert optimizer_bytes("SGD").low == 0 and optimizer_bytes("Adafactor").value < 1
    assert optimizer_bytes(None).low == 0 and optimizer_bytes(None).high == 8


@given(
    samples=st.integers(1, 512), gpus=st.sampled_from([1, 2, 8, 64]),
    precision=st.sampled_from([None, "fp32", "tf32", "amp-fp16", "bf16", "fp8"]),
    optimizer=st.sampled_from([None, "SGD", "AdamW", "adamw_8bit", "Adafactor"]), sharding=st.integers(0, 3),
    recomputing=st.sampled_from([None, True, False]), learns=st.booleans(),
    name=st.sampled_from(["resnet50", "gpt2", "t5-base", "DiT-B/4", "mobilenet_v2", "AWD-LSTM", "Mixtral-8x7B"]),
)  # fmt: skip
def test_memory_is_ordered_and_grows_with_samples(
    samples: int, gpus: int, precision: str | None, optimizer: str | None, sharding: int, recomputing: bool | None,
    learns: bool, name: str,
) -> None:  # fmt: skip
    model = architecture(name)
    assert model is not None
    size = model.size(length=None if model.of_images else 128)
    one = Setup(samples, gpus, precision, optimizer, sharding, recomputing=recomputing, learns=learns)
    two = Setup(2 * samples, gpus, precision, optimizer, sharding, recomputing=recomputing, learns=learns)
    needed, more = memory_mib(size, one), memory_mib(size, two)
    assert 0 < needed.low <= needed.value <= needed.high
    assert more.value > needed.value and more.high > needed.high


def test_recomputing_and_half_precision_save_memory() -> None:
    model = architecture("gpt2-medium")
    assert model is not None
    size = model.size(length=1024)

    def value(precision: str, recomputing: bool) -> float:
        return memory_mib(size, Setup(16, 1, precision, "AdamW", recomputing=recomputing)).value

    assert value("bf16", True) < 0.6 * value("bf16", False) < 0.6 * 0.6 * value("fp32", False)


def test_adapters_keep_what_belongs_to_few_weights() -> None:
    """QLoRA trains a 65B model on one GPU of 48 GB, where full training would take more than 780 (arXiv:2305.14314)."""
    model = architecture("llama-2-70b")
    assert model is not None
    size = model.size(length=512)
    full = memory_mib(size, Setup(1, 1, "bf16", "AdamW", recomputing=True))
    adapted = memory_mib(size, Setup(1, 1, "bf16", "adamw_8bit", recomputing=True, adapters=True, weight_bits=4))
    assert full.value > 780 * 1024 and 32 * 1024 < adapted.low < 48 * 1024 and adapted.value < 55 * 1024


# --- anything as a fact -------------------------------------------------------------------------------------------

_NUMBERS = st.one_of(st.integers(-5, 10**18), st.floats(allow_nan=True, allow_infinity=True), st.booleans(), st.none())
_TEXTS = st.sampled_from(
    ["train", "eval", "resnet50", "gpt2", "t5-base", "ImageNet", "openwebtext", "bf16", "fp32", "AdamW", "", "?"]
)  # fmt: skip
_ANY = st.one_of(
    _NUMBERS, _TEXTS, st.lists(st.sampled_from(["ddp", "zero3", "tp", "none", "?"]), max_size=3),
    st.dictionaries(st.sampled_from(["layers", "width", "heads", "inner", "experts", "norm"]), _NUMBERS, max_size=5),
)  # fmt: skip


@given(values=st.dictionaries(st.sampled_from(FACT_NAMES), _ANY, max_size=12), gpus=st.sampled_from([None, 1, 8]))
def test_whatever_the_facts_are_what_follows_is_ordered_and_finite(
    values: dict[str, JsonValue], gpus: int | None
) -> None:
    for name, each in workload(facts(**values), "a100", gpus).derived.items():
        assert 0 < each.low <= each.value <= each.high < float("inf"), (name, each)
        assert each.unit == QUANTITIES[name] and each.how


# --- from source --------------------------------------------------------------------------------------------------

CONFIGURED = """
import torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=24, num_attention_heads=16{more})
model = LlamaForCausalLM(config).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(1000):
    model(torch.zeros(8, 512)).loss.backward()
    opt.step()
"""


def test_the_shape_that_a_configuration_gives_counts_the_parameters(tmp_path: Path, kit: SimpleNamespace) -> None:
    read = kit.read(kit.grow(tmp_path, {"train.py": CONFIGURED.format(more="")}), "python train.py")
    layer = 4 * 1024**2 + 3 * 1024 * 2816 + 2 * 1024
    assert read.value("model_params_approx") == 24 * layer + 1024 + 2 * 32000 * 1024
    shape = read.value("model_shape")
    assert isinstance(shape, dict) and (shape["layers"], shape["width"], shape["gated"]) == (24, 1024, True)
    assert read.facts["model_shape"].evidence[0].file == "train.py"


@pytest.mark.parametrize("more", [", vocab_size=len(tokenizer)", ", num_key_value_heads=int(input())"])
def test_a_size_that_is_not_known_leaves_the_shape_out(more: str, tmp_path: Path, kit: SimpleNamespace) -> None:
    read = kit.read(kit.grow(tmp_path, {"train.py": CONFIGURED.format(more=more)}), "python train.py")
    assert "model_shape" not in read.facts and "model_params_approx" not in read.facts


def test_a_named_configuration_with_other_sizes_is_another_model(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = CONFIGURED.format(more="").replace(
        "config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=24, num_attention_heads=16)",
        'config = transformers.AutoConfig.from_pretrained("gpt2", n_layer=6, vocab_size=1000)',
    )
    read = kit.read(kit.grow(tmp_path, {"train.py": program}), "python train.py")
    model = architecture("gpt2")
    assert model is not None
    words = 768 * (1000 + 1024)
    assert read.value("model_params_approx") == 6 * (12 * 768**2 + 13 * 768) + 2 * 768 + words


def test_megatron_options_give_the_published_size_of_bloom(tmp_path: Path, kit: SimpleNamespace) -> None:
    """176,247,271,424 parameters (BigScience 2022, the model card of BLOOM)."""
    command = (
        "python pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 --num-layers 70 "
        "--hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --micro-batch-size 2 --train-iters 10 "
        "--pad-vocab-size-to 250880 --position-embedding-type alibi --embed-layernorm"
    )
    read = kit.read(tmp_path, command)
    assert read.value("model_params_approx") == 176_247_271_424


ADAPTED = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from peft import LoraConfig, get_peft_model
import os
model = AutoModelForCausalLM.from_pretrained("huggyllama/llama-7b", load_in_8bit=True)
{how}
trainer = Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=4))
trainer.train()
"""


@pytest.mark.parametrize(
    ("how", "sure"),
    [
        ("model = get_peft_model(model, LoraConfig(r=8))", 0.85),
        ("if input():\n    model = get_peft_model(model, LoraConfig(r=8))", 0.6),
        ("if False:\n    model = get_peft_model(model, LoraConfig(r=8))", None),
        ("", None),
    ],
)
def test_adapters_are_told_where_a_call_makes_them(
    how: str, sure: float | None, tmp_path: Path, kit: SimpleNamespace
) -> None:
    read = kit.read(kit.grow(tmp_path, {"train.py": ADAPTED.format(how=how)}), "python train.py")
    assert read.value("weight_bits") == 8
    assert (read.facts["adapters"].confidence if "adapters" in read.facts else None) == sure


def test_a_named_model_with_another_classifier_has_that_ones_parameters(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = """
import timm, torch, argparse
p = argparse.ArgumentParser()
p.add_argument("--num-classes", type=int, default=None)
args = p.parse_args()
model = timm.create_model("resnet18", num_classes=args.num_classes)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(10):
    model(torch.zeros(2, 3, 224, 224)).sum().backward()
    opt.step()
"""
    folder = kit.grow(tmp_path, {"train.py": program})
    assert kit.read(folder, "python train.py").value("model_params_approx") == 11_689_512
    assert kit.read(folder, "python train.py --num-classes 100").value("model_params_approx") == 11_689_512 - 900 * 513
