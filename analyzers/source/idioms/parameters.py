"""How many parameters a model has, where its layers or its name are known."""

from __future__ import annotations

import math
import re

from analyzers.source.idioms.models import CONTAINERS, is_network, owner_of_parameters, trained_model, unwrapped
from analyzers.source.idioms.optimisation import optimizer_calls
from analyzers.source.idioms.training import Training
from analyzers.source.knowledge.lookup import model_parameters, parameters_in_name
from analyzers.source.program.attributes import class_attribute, library_base
from analyzers.source.program.events import Call
from analyzers.source.program.values import ClassVal, Const, Ext, Map, Obj, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_number

_WEIGHTLESS = re.compile(
    r"ReLU|GELU|SiLU|Tanh|Sigmoid|Softmax|Dropout|Pool|Flatten|Identity|Loss|ELU|Mish|Upsample|Pad|Unfold|Fold|"
    r"PixelShuffle|Hardswish|Rngs|Unflatten|CosineSimilarity|DataParallel|Buffer"
)
LAYERS_MAX = 5_000
#: Base classes that hold no weights of their own.
_BASES = ("Module", "LightningModule", "Model", "Layer", "object", "ParameterList")
#: Networks of other libraries, whose weights are not worked out here.
_UNCOUNTED = re.compile(
    r"(transformers|timm|diffusers|segmentation_models_pytorch|monai|torch_geometric|open_clip|clip|torch\.hub|"
    r"efficientnet_pytorch|x_transformers|mamba_ssm|xformers|torchaudio\.models|peft)\b(?!.*(Tokenizer|Config|Processor))"
)


def offer_parameters(reading: Reading, training: Training) -> None:
    """``model_params_approx`` from the named architecture, or the layers built."""
    name = reading.value("model")
    model = trained_model(reading, training)
    if isinstance(name, str):
        published = model_parameters(name)
        local = isinstance(model, Obj) and isinstance(model.cls, ClassVal)
        if published is not None and not (local and _has_layers(model)):
            classes = _classes(reading, model, name)
            if classes is None:
                reading.offer("model_params_approx", published, 0.85, None, "looked_up")
            elif classes > 0 and (resized := model_parameters(name, classes)) is not None:
                origin = model.origin if isinstance(model, Obj) else None
                reading.offer("model_params_approx", resized, 0.8, origin, "computed")
        elif not local:
            written = parameters_in_name(name)
            if written is not None:
                reading.offer("model_params_approx", int(written), 0.75, None, "looked_up")
    if "model_params_approx" not in reading.facts and isinstance(model, Obj):
        count = _count_all(reading, model)
        if count is not None and count > 0:
            reading.offer("model_params_approx", int(count), 0.75, model.origin, "computed")


def _count_all(reading: Reading, model: Obj) -> float | None:
    """Parameters of the model, and of the others that have an optimizer of their own (a GAN's second half)."""
    counter = _Counter()
    found = [owner_of_parameters(call.argument(0, "params"), 0) for call in optimizer_calls(reading)]
    others = [unwrapped(owner) for owner in found if owner is not None]
    counts = [counter.count(part) for part in [model, *(o for o in others if isinstance(o, Obj))]]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _has_layers(model: Val | None) -> bool:
    return isinstance(model, Obj) and (_Counter().count(model) or 0) > 0


def _classes(reading: Reading, model: Val | None, name: str) -> int | None:
    """The size of the classifier that a named model is built with: None where it is the published one, 0 unknown."""
    built = [model.call] if isinstance(model, Obj) and model.call is not None else []
    built += [c for c in reading.calls if c.name in ("create_model", name.rpartition("/")[2])]
    given = next((c.kwargs["num_classes"] for c in built if "num_classes" in c.kwargs), None)
    if given is None or (isinstance(given, Const) and given.value is None):
        return None
    classes = as_number(given)
    return None if classes == 1000 else int(classes) if classes is not None and 0 < classes < 1e7 else 0


class _Counter:
    """Adds up the parameters of the layers an object holds; gives up (None) on a layer it does not know."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.layers = 0

    def count(self, value: Val, depth: int = 0) -> float | None:
        """Parameters of a module, a container of modules, or 0 for what is neither."""
        self.layers += 1
        if depth > 30 or self.layers > LAYERS_MAX:
            return None
        if isinstance(value, Seq):
            total = self._sum(value.items, depth)
            return None if value.open and total else total
        if isinstance(value, Unknown):
            # One of several modules, or one that nobody knows, has weights that are not known either.
            return None if any(isinstance(option, Obj) and is_network(option) for option in value.options) else 0.0
        if not isinstance(value, Obj):
            return 0.0
        if id(value) in self.seen:
            return 0.0  # shared weights count once
        self.seen.add(id(value))
        if isinstance(value.cls, ClassVal):
            if library_base(value.cls) is None or not re.search(
                r"nn\.|nnx|linen|ightning|keras", library_base(value.cls) or ""
            ):
                return 0.0
            return self._own(value, library_base(value.cls) or "", depth)
        return self._library(value, depth)

    def _sum(self, values: list[Val], depth: int) -> float | None:
        total = 0.0
        for value in values:
            part = self.count(value, depth + 1)
            if part is None:
                return None
            total += part
        return total

    def _own(self, value: Obj, base: str, depth: int) -> float | None:
        """A module of the tree: what it holds; where it is a kind of one layer, that layer too."""
        kind = base.rpartition(".")[2]
        held = list(value.attrs.values())
        if kind in CONTAINERS:
            return self._sum([*held, *(value.call.args if value.call is not None else [])], depth)
        inner = self._sum(held, depth)
        if inner is None or kind in _BASES:
            return inner
        given = value.call if value.call is not None and class_attribute(value.cls, "__init__") is None else None  # type: ignore[arg-type]
        layer = layer_parameters(kind, given, tied=False) if given is not None else None
        return inner + layer if layer is not None else (inner if _WEIGHTLESS.search(kind) else None)

    def _library(self, value: Obj, depth: int) -> float | None:
        assert isinstance(value.cls, Ext)
        path = value.cls.path
        call = value.call
        name = path.rpartition(".")[2]
        if not re.match(r"(torch\.nn|nn|flax\.nnx|torchvision\.models)\b", path) or call is None or "()" in path:
            return None if _UNCOUNTED.match(path) else 0.0
        if path.startswith("torchvision.models"):
            return None if call.kwargs.get("num_classes") else float(model_parameters(name) or 0) or None
        if name in CONTAINERS:
            items: list[Val] = [value.attrs["appended"]] if "appended" in value.attrs else []
            for argument in call.args:
                items.extend(argument.items if isinstance(argument, Seq) else
                             list(argument.items.values()) if isinstance(argument, Map) else [argument])  # fmt: skip
                if isinstance(argument, Seq) and argument.open:
                    return None
                if isinstance(argument, Unknown):
                    return None
            return self._sum(items, depth)
        return layer_parameters(name, call, tied="weight" in value.attrs)


def layer_parameters(name: str, call: Call, *, tied: bool) -> float | None:
    """Weights of one standard layer, or None where a size is not known; 0 for layers without weights."""
    bias = (
        0
        if isinstance(call.argument(None, "bias", "use_bias"), Const) and _off(call.argument(None, "bias", "use_bias"))
        else 1
    )
    if name == "Linear":
        first, second = _number(call, 0, "in_features"), _number(call, 1, "out_features")
        if first is None or second is None:
            return None
        return (0 if tied else first * second) + bias * second
    if name in ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Conv"):
        first, second = _number(call, 0, "in_channels", "in_features"), _number(call, 1, "out_channels", "out_features")
        kernel = call.argument(2, "kernel_size")
        groups = _number(call, 6, "groups") or 1
        dimensions = int(name[-2]) if name[-2].isdigit() else 2
        area = _kernel(kernel, dimensions)
        if first is None or second is None or area is None:
            return None
        return first * second * area / groups + bias * second
    if name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNorm", "SyncBatchNorm"):
        size = _number(call, 0, "num_features")
        affine = call.argument(None, "affine")
        return None if size is None else 0.0 if _off(affine) else 2 * size
    if name in ("LayerNorm", "GroupNorm", "RMSNorm"):
        size = _kernel(
            call.argument(1 if name == "GroupNorm" else 0, "normalized_shape", "num_channels", "num_features"), 1
        )
        weights = 1 if name == "RMSNorm" or not bias else 2
        return None if size is None else 0.0 if _off(call.argument(None, "elementwise_affine")) else weights * size
    if name == "Embedding":
        rows, columns = _number(call, 0, "num_embeddings"), _number(call, 1, "embedding_dim", "features")
        return None if rows is None or columns is None else 0.0 if tied else rows * columns
    if name in ("LSTM", "GRU", "RNN"):
        return _recurrent(name, call)
    if name == "Parameter":
        return _tensor_size(call.args[0] if call.args else None)
    return 0.0 if _WEIGHTLESS.search(name) else None


def _recurrent(name: str, call: Call) -> float | None:
    size, hidden = _number(call, 0, "input_size"), _number(call, 1, "hidden_size")
    layers = _number(call, 2, "num_layers") or 1
    if size is None or hidden is None or layers > 100:
        return None
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    directions = 2 if isinstance(v := call.kwargs.get("bidirectional"), Const) and v.value is True else 1
    total = 0.0
    for layer in range(int(layers)):
        width = size if layer == 0 else hidden * directions
        total += directions * gates * hidden * (width + hidden + 2)
    return total


def _tensor_size(value: Val | None) -> float | None:
    if (
        isinstance(value, Obj)
        and value.call is not None
        and value.call.path.rpartition(".")[2] in ("ones", "zeros", "randn", "rand", "empty")
    ):
        sizes = [
            as_number(a)
            for a in (
                value.call.args[0].items if value.call.args and isinstance(value.call.args[0], Seq) else value.call.args
            )
        ]
        known = [s for s in sizes if s is not None]
        return float(math.prod(known)) if known and len(known) == len(sizes) else None
    return None


def _off(value: Val | None) -> bool:
    return isinstance(value, Const) and value.value in (False, 0, None)


def _number(call: Call, position: int, *names: str) -> float | None:
    value = as_number(call.argument(position, *names))
    return float(value) if value is not None and abs(value) < 1e12 else None


def _kernel(value: Val | None, dimensions: int) -> float | None:
    if isinstance(value, Seq):
        sizes = [as_number(i) for i in value.items]
        known = [s for s in sizes if s is not None]
        return float(math.prod(known)) if len(known) == len(sizes) and known else None
    number = as_number(value)
    return float(number**dimensions) if number is not None and abs(number) < 1e6 else None
