"""Which model is trained, and what it is called."""

from __future__ import annotations

import re

from analyzers.source.idioms.named import NAMES
from analyzers.source.idioms.optimisation import optimizer_calls
from analyzers.source.idioms.training import Training, is_keras_fit
from analyzers.source.knowledge.lookup import model_parameters
from analyzers.source.program.attributes import library_base
from analyzers.source.program.events import Call, Loop
from analyzers.source.program.values import Bound, ClassVal, Const, Ext, Map, Obj, Origin, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_number, as_text

_NOT_MODELS = re.compile(
    r"Tokenizer|Processor|Config|FeatureExtractor|Scheduler|Dataset|DataModule|Callback|Loss|Trainer|Arguments"
)
_MODULE_CALL = re.compile(
    r"(torch\.nn|nn|flax\.nnx|flax\.linen|lightning|pytorch_lightning|keras|tensorflow\.keras|timm\.models|"
    r"torchvision\.models|torch_geometric\.nn|monai\.networks|diffusers\.models)[\w.]*<|transformers\.\w*(Model|For[A-Z]\w+)<"
)
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "List")


def trained_model(reading: Reading, training: Training) -> Val | None:
    """The object whose parameters go to the optimizer, that is wrapped for training, or that a trainer fits."""
    for call in optimizer_calls(reading):
        first = call.argument(0, "params")
        found = owner_of_parameters(first, 0)
        if isinstance(found, Obj | Unknown) and isinstance(unwrapped(found), Obj):
            return found if _several(found) else _whole_of(reading, unwrapped(found))
    for call in reading.calls:
        if call.path.endswith("Optimizer") and "nnx" in call.path and call.args:
            return unwrapped(call.args[0])
        if call.path == "deepspeed.initialize":
            model = call.argument(1, "model")
            if model is not None:
                return unwrapped(model)
    if training.call is not None and training.trainer:
        if is_keras_fit(training.call):
            return unwrapped(training.call.receiver) if training.call.receiver is not None else None
        model = training.call.argument(0, "model")
        if model is None and isinstance(training.call.receiver, Obj) and training.call.receiver.call is not None:
            model = training.call.receiver.call.argument(0, "model") or training.call.receiver
        if model is not None:
            return unwrapped(model)
    return _outermost(reading, training)


def _whole_of(reading: Reading, part: Val) -> Val:
    """The program's network of which only a library's layer is trained (the head, for a linear probe)."""
    if not isinstance(part, Obj) or isinstance(part.cls, ClassVal) or not part.cls.path.startswith("torch.nn."):
        return part
    for call in reading.calls:
        whole = call.result
        if is_module_call(call) and isinstance(whole, Obj) and isinstance(whole.cls, ClassVal) and holds(whole, part):
            return whole
    return part


def _outermost(reading: Reading, training: Training) -> Val | None:
    """The one network that was built before the training and is no part of another; several are not told apart."""
    models = []
    for call in reading.calls:
        if call is training.call:
            break
        if is_module_call(call) and isinstance(call.result, Obj) and not call.loops:
            models.append(call)
    found = [c.result for c in models if isinstance(c.result, Obj)]
    tops = [c.result for c in models if isinstance(c.result, Obj) and "__init__" not in c.callers[:1]] or found
    wholes = [m for m in tops if not any(any(unwrapped(p) is m for p in o.attrs.values()) for o in found if o is not m)]
    named = {_class_of(m): m for m in reversed(wholes or tops)}
    if len(named) > 1:
        return Unknown("one of several models", wholes[0].origin if wholes else Origin(), tuple(named.values()))
    return unwrapped(next(iter(named.values()))) if named else None


def _several(value: Val) -> bool:
    """Whether a value may be one of several networks of different classes, none of which holds the others."""
    if not isinstance(value, Unknown):
        return False
    options = [option for option in map(unwrapped, value.options) if isinstance(option, Obj) and is_network(option)]
    wholes = [o for o in options if not any(holds(other, o) for other in options if other is not o)]
    return len({_class_of(option) for option in wholes}) > 1


def _class_of(model: Obj) -> str:
    return model.cls.name if isinstance(model.cls, ClassVal) else model.cls.path


def holds(whole: Val, part: Val) -> bool:
    """Whether an object is another one, or has it among what it holds or was made from."""
    waiting: list[Val] = [whole]
    for _ in range(200):
        if not waiting:
            return False
        value = waiting.pop()
        if value is part:
            return True
        if isinstance(value, Obj):
            waiting.extend(v for v in value.attrs.values() if isinstance(v, Obj | Seq))
            if isinstance(value.cls, Ext) and value.call is not None:
                waiting.extend(v for v in value.call.args if isinstance(v, Obj))
        elif isinstance(value, Seq):
            waiting.extend(value.items[:20])
        elif isinstance(value, Unknown):
            waiting.extend(value.options)
    return True


def is_module_call(call: Call) -> bool:
    """Whether a call builds a network of the tree."""
    return (
        _MODULE_CALL.match(call.path) is not None
        and not _NOT_MODELS.search(call.path)
        and "utils.data" not in call.path
    )


def unwrapped(value: Val) -> Val:
    """A model without the wrappers around it."""
    for _ in range(8):
        if isinstance(value, Obj) and isinstance(value.cls, Ext) and isinstance(value.attrs.get("module"), Obj | Seq):
            value = value.attrs["module"]
        elif isinstance(value, Unknown) and value.options:
            value = value.options[0]
        elif isinstance(value, Seq):
            # Layers taken out of a model one by one still are that model.
            owners = [i.owner for i in value.items if isinstance(i, Bound) and isinstance(i.owner, Obj)]
            if not owners:
                break
            value = owners[0]
        else:
            break
    return value


def owner_of_parameters(value: Val | None, depth: int) -> Val | None:
    if value is None or depth > 6:
        return None
    if isinstance(value, Obj):
        call = value.call
        if call is not None and call.name in ("parameters", "named_parameters", "trainable_parameters"):
            return call.receiver
        if isinstance(value.cls, ClassVal):
            return value
        for inner in [*(call.args if call is not None else []), *value.attrs.values()][:6]:
            found = owner_of_parameters(inner, depth + 1)
            if found is not None:
                return found
        return None
    if isinstance(value, Bound) and value.name in ("parameters", "named_parameters"):
        return value.owner
    if isinstance(value, Seq | Map):
        items = value.items if isinstance(value, Seq) else list(value.items.values())
        for item in items[:6]:
            found = owner_of_parameters(item, depth + 1)
            if found is not None:
                return found
    if isinstance(value, Unknown):
        if value.detail[:1] in (("loop",), ("part",)) and isinstance(value.detail[1], Loop):
            return owner_of_parameters(value.detail[1].iterable, depth + 1)  # a parameter out of named_parameters()
        owners = [o for option in value.options if (o := owner_of_parameters(option, depth + 1)) is not None]
        if len({id(unwrapped(owner)) for owner in owners}) > 1:
            return Unknown("one of several models", value.origin, tuple(owners))
        if owners:
            return owners[0]
        parts = value.detail[1:3] if value.detail[:1] == ("arithmetic",) else ()
        for part in (p for p in parts if isinstance(p, Obj | Seq | Unknown)):
            found = owner_of_parameters(part, depth + 1)
            if found is not None:
                return found
    return None


def model_name(reading: Reading, training: Training) -> tuple[str, float, Origin] | None:
    """The model's name, how sure, and where."""
    model = trained_model(reading, training)
    told = _told(reading)
    loaded = [
        c
        for c in reading.calls
        if c.name in ("from_pretrained", "from_config", "pipeline", "create_model", "SentenceTransformer")
    ]
    for call in loaded:
        owner = call.path.rpartition(".")[0].rpartition(".")[2]
        if _NOT_MODELS.search(owner) or _is_helper(reading, training, call, model, told):
            continue
        text = as_text(
            call.argument(1 if call.name == "pipeline" else 0, "pretrained_model_name_or_path", "model_name", "model")
        )
        if text:
            return text, 0.9, _text_origin(call)
    if isinstance(model, Obj):
        found = _object_name(reading, model)
        if found is not None:
            if told is not None and _is_variant(model, told[0]) and (told[2].how == "override" or not _shape(model)):
                return told[0], max(told[1], found[1]), told[2]
            return found
    if told is not None:
        return told
    layers, hidden = reading.number("layers"), reading.number("hidden")
    if reading.words_read_unseen and layers is not None and hidden is not None and layers[0] > 0:
        kind = re.sub(r"^pretrain_|\.py$", "", reading.launch.program.rpartition("/")[2]).upper() or "transformer"
        return f"{kind} ({int(layers[0])} layer, {int(hidden[0])} hidden)", 0.8, layers[1].origin
    load = reading.settings.get("load")
    if reading.launch.entry is None and load is not None:
        written = as_text(load.value) or next(iter(getattr(load.value, "detail", ())[1:]), None)
        if isinstance(written, str) and written:
            return "/".join(written.split("/")[-4:]), 0.55, load.origin
    return None


#: Options by which a network's variant is chosen through its description or its weights.
_FILES_OF_MODELS = ("cfg", "model_cfg", "model_config", "weights")


def _told(reading: Reading) -> tuple[str, float, Origin] | None:
    """The model that the job is told to use, by a name or by a file named after it (``--cfg yolov5s.yaml``)."""
    for name in NAMES["model"]:
        value = reading.machine.told.get(name)
        if value is not None and isinstance(value.value, str) and value.value:
            return re.sub(_ENDINGS, "", value.value), 0.75, value.origin
    setting = reading.settings.get("model")
    text = as_text(setting.value) if setting is not None else None
    if text and setting is not None:
        return text, setting.confidence, setting.origin
    for name in _FILES_OF_MODELS:
        value = reading.machine.told.get(name)
        written = as_text(value) or ""
        stem = re.sub(_ENDINGS, "", written).rpartition("/")[2]
        if value is not None and stem != written and _SIZED.search(stem):
            return stem, 0.75, value.origin
    return None


_ENDINGS = r"\.(ya?ml|json|toml|pth?|pth\.tar|ckpt|safetensors|bin|cfg)$"
_GENERAL_CLASS = re.compile(
    r"(Detection|Classification|Segmentation|Base|My|Custom|Simple)?(Model|Net|Network|Detector|Classifier|Backbone)"
    r"(Wrapper)?|Ensemble"
)


def _is_variant(model: Obj, told: str) -> bool:
    """Whether a name that the job is told is one variant of the class (``DiT-XL/2``), which itself tells less."""
    if not isinstance(model.cls, ClassVal):
        return False
    initials = "".join(c for c in model.cls.name if c.isupper()).lower()
    name, plain = _plain(model.cls.name), _plain(told)
    return (
        name in plain
        or (len(initials) > 1 and plain.startswith(initials))
        or (_GENERAL_CLASS.fullmatch(model.cls.name) is not None and _SIZED.search(told) is not None)
    )


def _is_helper(
    reading: Reading, training: Training, call: Call, model: Val | None, told: tuple[str, float, Origin] | None
) -> bool:
    """Whether a loaded network only serves another one, which learns or is what the job was told to use."""
    if isinstance(model, Obj) and call.result is not None and training.call is not None:
        return not holds(model, call.result)
    if told is not None and as_text(call.argument(0, "pretrained_model_name_or_path")) == told[0]:
        return False
    own = [c.result for c in reading.calls if is_module_call(c) and isinstance(c.result, Obj)]
    return told is not None and any(
        _plain(_class_of(o)) in _plain(told[0]) and not holds(o, call.result or o) for o in own
    )


def _text_origin(call: Call) -> Origin:
    value = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    origin = getattr(value, "origin", None)
    return origin if isinstance(origin, Origin) and origin.file else call.origin


def _object_name(reading: Reading, model: Obj) -> tuple[str, float, Origin] | None:
    if isinstance(model.cls, ClassVal):
        network = model.attrs.get("net") or model.attrs.get("model") or model.attrs.get("backbone")
        if (
            library_base(model.cls) is not None
            and "ightning" in (library_base(model.cls) or "")
            and isinstance(network, Obj)
        ):
            inner = _object_name(reading, network)
            if inner is not None:
                return inner
        part = _wrapped_part(model)
        inside = _object_name(reading, part) if part is not None else None
        if inside is not None:
            return inside
        configured = _configured_name(model)
        if configured is not None:
            return configured
        maker = _maker(reading, model)
        if maker is not None:
            return maker, 0.88, model.origin
        kind = next((as_text(a) for a in (model.call.args if model.call is not None else []) if as_text(a)), None)
        detail = _shape(model)
        name = model.cls.name + (f" ({kind})" if kind and len(kind) < 40 else "") + detail
        return name, 0.85, model.origin
    path = model.cls.path
    if path == "torch.hub.load" and model.call is not None:
        published = as_text(model.call.argument(1, "model"))
        return (published, 0.85, model.origin) if published else None
    if _BUILT.fullmatch(path):
        last = path.rpartition(".")[2]
        if path.startswith("torch.nn."):
            numbers = [
                str(int(n)) for n in map(as_number, model.call.args if model.call is not None else []) if n is not None
            ]
            if last in CONTAINERS:
                return None  # a container says nothing
            return f"nn.{last}({','.join(numbers)})", 0.85, model.origin
        return last, 0.9, model.origin
    return None


#: What builds a network, by its whole path: not what a library gives for data, nor a method, an item or a result of one
#: (``keras.datasets.mnist.load_data[]().astype``). Keras' functional ``Model`` is a container without a name.
_BUILT = re.compile(
    r"torchvision\.models\.[\w.]+|timm\.(models\.[\w.]+|create_model)|segmentation_models\w*\.[\w.]+|torch\.nn\.[A-Z]\w*|"
    r"torch\.nn\.modules\.\w+\.[A-Z]\w*|"
    r"(tensorflow\.(python\.|compat\.v\d\.)?)?keras\.((models\.|engine\.sequential\.)?Sequential|applications\.([\w.]+\.)?[A-Z]\w*)"
)


_GENERAL_MAKER = re.compile(
    r"_|<|build|create|make|get|load|init|setup|main|train|test|eval|run|prepare|define|new|model$|net$|network$|"
    r"configure|forward|generate|sample",
    re.IGNORECASE,
)
_SIZED = re.compile(r"\d|tiny|small|base|large|huge|giant|nano|micro|mini|xl", re.IGNORECASE)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _maker(reading: Reading, model: Obj) -> str | None:
    """The function that makes one variant of a model, and is called like it (``resnet18``, ``vit_small``)."""
    setting = reading.settings.get("model")
    told = _plain(as_text(setting.value) or "") if setting is not None else ""
    for name in model.call.callers if model.call is not None else ():
        if told and _plain(name) == told:
            return name
        if not _GENERAL_MAKER.match(name) and (_SIZED.search(name) or model_parameters(name) is not None):
            return name
    return None


_MAIN_PARTS = ("backbone", "encoder", "trunk", "model", "module", "net", "network", "student", "base_model")


def _wrapped_part(model: Obj) -> Obj | None:
    """The main part of a module that holds nothing but modules it was given."""
    call = model.call
    if call is None:
        return None
    given = [unwrapped(value) for value in [*call.args, *call.kwargs.values()]]
    parts = {name: part for name, value in model.attrs.items() if isinstance(part := unwrapped(value), Obj)
             and is_network(part)}  # fmt: skip
    if not parts or not all(any(part is value for value in given) for part in parts.values()):
        return None
    return next((parts[name] for name in _MAIN_PARTS if name in parts), next(iter(parts.values())))


def is_network(value: Obj) -> bool:
    if isinstance(value.cls, ClassVal):
        return re.search(r"nn\.|nnx|linen|ightning|keras|timm", library_base(value.cls) or "") is not None
    return (
        re.match(r"(torch\.nn|nn|torchvision\.models|timm|transformers|torch\.hub\.load)\b", value.cls.path) is not None
    )


def _configured_name(model: Obj) -> tuple[str, float, Origin] | None:
    """The name that a model's configuration carries; a class alone tells little where that name is not known."""
    config = model.attrs.get("config") or (model.call.args[0] if model.call is not None and model.call.args else None)
    values = config.attrs if isinstance(config, Obj) else config.items if isinstance(config, Map) else {}
    name = values.get("name")
    text = as_text(name)
    if text:
        return text, 0.87, name.origin if isinstance(name, Const) else model.origin
    if name is not None and not isinstance(name, Const) and isinstance(model.cls, ClassVal):
        return model.cls.name, 0.45, model.origin
    return None


def _shape(model: Obj) -> str:
    """Depth and width of a transformer, where its configuration object says them."""
    config = model.attrs.get("config") or (model.call.args[0] if model.call is not None and model.call.args else None)
    values = config.attrs if isinstance(config, Obj) else config.items if isinstance(config, Map) else {}
    parts = []
    for label, names in (("layer", ("n_layer", "num_layers", "n_layers")), ("head", ("n_head", "num_heads", "n_heads")),
                         ("embd", ("n_embd", "hidden_size", "d_model"))):  # fmt: skip
        number = next((as_number(values[n]) for n in names if n in values and as_number(values[n]) is not None), None)
        if number is not None:
            parts.append(f"{int(number)} {label}")
    return f" ({', '.join(parts)})" if parts else ""
