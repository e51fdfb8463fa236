"""Peak memory of training steps by PyTorch's own tracker, on fake tensors: shapes without numbers, on no GPU.

Needs the extra ``local``. The second training step runs under ``torch.distributed._tools.mem_tracker.MemTracker``, for
by then there are optimizer states. The fake tensors are of the CPU, because a build without CUDA has no fake ones of a
GPU, so `_as_on_cuda` puts in what CUDA does otherwise: autocast's list of operations in 32 bits, masks of dropout in
bytes, fused attention. What no tracker of tensors sees (context, workspaces, fragmentation) is not in it.
"""

from __future__ import annotations

import contextlib
import gc
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.hooks import RemovableHandle

from benchmarks.memory_networks import network

_MIB = 2.0**20
#: Operations that CUDA's autocast computes in 32 bits and the CPU's does not (the list in PyTorch's documentation).
_IN_SINGLE = (
    (functional, ("layer_norm", "group_norm", "softmax", "log_softmax", "cross_entropy", "nll_loss", "mse_loss")),
    (torch, ("layer_norm", "group_norm", "softmax", "log_softmax", "pow", "rsqrt", "exp")),
    (torch.Tensor, ("softmax", "pow", "__pow__", "exp")),
)
_DTYPES = {"bf16": torch.bfloat16, "amp-fp16": torch.float16}


@contextlib.contextmanager
def _as_on_cuda() -> Iterator[None]:
    """Functions that keep other tensors on a GPU than on a CPU, as the GPU does them.

    They are put in place of the library's, because a mode that sees every call is not on while a backward pass
    recomputes a block.
    """
    instead: list[tuple[Any, str, Any]] = [
        (place, n, _widened(getattr(place, n))) for place, ns in _IN_SINGLE for n in ns
    ]
    instead += [(functional, "dropout", _dropout), (functional, "scaled_dot_product_attention", _attention)]
    before = [(place, name, getattr(place, name)) for place, name, _ in instead]
    try:
        for place, name, new in instead:
            setattr(place, name, new)
        yield
    finally:
        for place, name, old in before:
            setattr(place, name, old)


def _widened(func: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled("cpu"):
            args = tuple(_single(each) for each in args)
        return func(*args, **kwargs)

    return call


def _single(value: Any) -> Any:
    is_half = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if is_half else value


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


def _attention(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
               scale: float | None = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    """Flash attention at 16 bits without a mask, else the memory-efficient kernel: what SDPA chooses on a GPU."""
    if torch.is_autocast_enabled("cpu"):
        q, k, v = (each.to(torch.get_autocast_dtype("cpu")) for each in (q, k, v))
    if k.shape[1] != q.shape[1]:
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
    if attn_mask is None and q.dtype != torch.float32:
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, scale=scale)[0]
    if attn_mask is not None:
        attn_mask = attn_mask.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale
    )[0]


def measure(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration's second training step takes, in MiB.

    ``passes``: at the peak of forward and backward passes, in all (``Total``) and by what the tracker calls it;
    ``update``: at that of the optimizer's step. The first step, not looked at, makes the optimizer's states.
    ``parameters`` and ``learned`` are counts.
    """
    train = row["train"]
    with FakeTensorMode(allow_non_fake_inputs=True), _as_on_cuda():
        half = _is_half(train) or isinstance(train.get("frozen"), int)
        with _default_dtype(torch.bfloat16 if half else torch.float32):
            model = network(row["build"])
        if train.get("frozen"):
            _freeze(model, train)
        if train.get("checkpointing"):
            _recompute(model)
        learned = [p for p in model.parameters() if p.requires_grad]
        optimizer = _optimizer(train["optimizer"], learned)
        _pass(model, train)
        optimizer.step()
        optimizer.zero_grad()
        gc.collect()
        passes = MemTracker()
        passes.track_external(model, optimizer)
        # Engines that divide gradients send each away when it is there: none of them is on this GPU but its share.
        sent = [p.register_post_accumulate_grad_hook(_send) for p in learned] if train.get("zero", 0) > 1 else []
        with passes:
            for _ in range(train.get("grad_accum", 1)):
                _pass(model, train)
                passes.reset_mod_stats()
        for handle in sent:
            handle.remove()
        if sent:
            _pass(model, train)
        gc.collect()
        update = MemTracker()
        update.track_external(model, optimizer)
        with update:
            optimizer.step()
    return {
        "passes": _peak(passes),
        "update": _peak(update),
        "parameters": sum(p.numel() for p in model.parameters()),
        "learned": sum(p.numel() for p in learned),
    }


def _send(parameter: Any) -> None:
    parameter.grad = None


def _pass(model: Any, train: Mapping[str, Any]) -> None:
    with _autocast(train):
        loss = _loss(model, train)
    loss.backward()


def _peak(tracker: Any) -> dict[str, float]:
    (parts,) = (parts for device, parts in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu")
    return {_name(kind): round(size / _MIB, 2) for kind, size in parts.items()}


@contextlib.contextmanager
def _default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _is_half(train: Mapping[str, Any]) -> bool:
    """Whether weights themselves are in 16 bits, as engines with ZeRO keep them."""
    return train.get("weights") == "half" or "zero" in train


def _name(kind: Any) -> str:
    return str(getattr(kind, "value", kind)).rpartition(".")[2]


@contextlib.contextmanager
def _autocast(train: Mapping[str, Any]) -> Iterator[None]:
    half = _DTYPES.get(train.get("precision", "fp32"))
    if half is None or _is_half(train):
        yield
        return
    with torch.autocast("cpu", dtype=half):
        yield


def _loss(model: Any, train: Mapping[str, Any]) -> Any:
    batch = train["batch"]
    if "image" in train:
        x = torch.randn(batch, 3, train["image"], train["image"])
        if _is_half(train):
            x = x.to(torch.bfloat16)
        out = model(x)
        out = getattr(out, "logits", out)
        labels = torch.zeros((batch, *out.shape[2:]), dtype=torch.long)
        return functional.cross_entropy(out, labels)
    ids = torch.zeros((batch, train["length"]), dtype=torch.long)
    if train.get("task") == "classify":
        return model(input_ids=ids, labels=torch.zeros(batch, dtype=torch.long)).loss
    labels = torch.zeros((batch, train.get("outputs", train["length"])), dtype=torch.long)
    return model(input_ids=ids, labels=labels, **({"use_cache": False} if train.get("causal") else {})).loss


def _optimizer(name: str, learned: list[Any]) -> Any:
    """Over lists of tensors, as these optimizers do on a GPU."""
    if name.startswith("sgd"):
        return torch.optim.SGD(learned, lr=0.1, momentum=0.9 if name == "sgd" else 0.0, foreach=True)
    known = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    known |= {"adagrad": torch.optim.Adagrad}
    return known[name](learned, lr=1e-3, foreach=True)


def _recompute(model: Any) -> None:
    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if hasattr(model, "enable_input_require_grads") and not all(p.requires_grad for p in model.parameters()):
            model.enable_input_require_grads()
        return
    for child in model.children():  # our own networks: each block is recomputed
        if list(child.children()):
            inside = child.forward
            child.forward = lambda *x, _inside=inside: checkpoint(_inside, *x, use_reentrant=False)


class _LowRank(torch.nn.Module):
    """A frozen matrix with an adapter beside it (Hu et al. 2021, arXiv:2106.09685)."""

    def __init__(self, frozen: Any, rank: int) -> None:
        super().__init__()
        self.frozen = frozen
        rows, columns = frozen.weight.shape
        if type(frozen).__name__ == "Conv1D":
            rows, columns = columns, rows
        self.a = torch.nn.Linear(columns, rank, bias=False)
        self.b = torch.nn.Linear(rank, rows, bias=False)

    def forward(self, x: Any) -> Any:
        out = self.frozen(x)
        return out + self.b(self.a(x.to(self.a.weight.dtype))).to(out.dtype)


def _no_hook(_: Any) -> Any:
    return RemovableHandle(OrderedDict())


def _freeze(model: Any, train: Mapping[str, Any]) -> None:
    """All but the head (``frozen: head``), or all with adapters of a rank beside the matrices that are named."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        parameter.register_hook = _no_hook  # the tracker asks for one on every weight, which a frozen one refuses
        parameter.register_post_accumulate_grad_hook = _no_hook
    if train["frozen"] == "head":
        for parameter in list(model.children())[-1].parameters():
            parameter.requires_grad_(True)
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in train["adapted"]:
                setattr(module, name, _LowRank(child, train["frozen"]))
