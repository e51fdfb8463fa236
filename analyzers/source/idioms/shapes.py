"""The shape of a transformer that a program builds: layers, width, heads and the like, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping

from analyzers.source.arithmetic.transformer import Transformer, size
from analyzers.source.idioms.models import trained_model
from analyzers.source.idioms.named import MEGATRON_MARKS, launch_options
from analyzers.source.idioms.training import Training
from analyzers.source.knowledge.architectures import architecture
from analyzers.source.knowledge.configurations import common_shape, configuration
from analyzers.source.program.events import Call
from analyzers.source.program.values import Const, Map, Obj, Origin, Val
from analyzers.source.reading import Reading, as_flag, as_number, as_text
from analyzers.types import JsonValue

#: GPT-2's vocabulary, padded as Megatron pads it; what its programs use unless told.
_MEGATRON_VOCABULARY = 50_304
_NEEDED = ("layers", "width", "heads")


def offer_shape(reading: Reading, training: Training) -> None:
    """``model_shape``, and ``model_params_approx`` where it follows from the shape."""
    _of_megatron(reading)
    _of_library(reading)
    if "model_shape" not in reading.facts:
        _of_own_class(reading, training)


def _of_library(reading: Reading) -> None:
    """A configuration object of transformers, or a named one with other sizes."""
    known = {id(c): found for c in reading.calls if not c.loops and (found := _configured(c)) is not None}
    if len(known) != 1:
        return  # which of several is trained is not told
    call = next(c for c in reading.calls if id(c) in known)
    # Surer than a name's published size, for the name is that of what was changed.
    sure = 0.88 if call.name == "from_pretrained" else 0.82
    _offer(reading, known[id(call)], sure, call.origin, counts=True)


def _configured(call: Call) -> dict[str, JsonValue] | None:
    if not call.path.startswith("transformers."):
        return None
    if call.name == "from_pretrained" and "Config" in call.path:
        return _changed(call)
    known = configuration(call.name.partition("<")[0])
    if known is None or call.args:
        return None
    given = _plain({name: value for name, value in call.kwargs.items() if known.tells(name)})
    return None if given is None else known.shape(given)


def _changed(call: Call) -> dict[str, JsonValue] | None:
    """``AutoConfig.from_pretrained("gpt2", n_layer=24)``: the named architecture with some sizes changed."""
    named = architecture(as_text(call.argument(0, "pretrained_model_name_or_path")) or "")
    given = _plain({name: value for name, value in call.kwargs.items() if common_shape({name: 1})})
    if named is None or named.kind != "transformer" or not given:
        return None
    return {**named.shape, **common_shape(given)}


def _plain(values: Mapping[str, Val]) -> dict[str, JsonValue] | None:
    """Options as plain numbers and switches; None where one of them is not known."""
    found: dict[str, JsonValue] = {}
    for name, value in values.items():
        if isinstance(value, Const) and (value.value is None or isinstance(value.value, bool)):
            found[name] = value.value
            continue
        number = as_number(value)
        if number is None:
            return None
        found[name] = int(number)
    return found


def _of_megatron(reading: Reading) -> None:
    """The options of a Megatron-style program, which is often started from a checkout elsewhere."""
    if not reading.words_read_unseen:
        return
    options = launch_options(reading)
    if reading.handed_over is None and len(MEGATRON_MARKS & set(options)) < 2:
        return
    shape = common_shape({n: int(v) for n, o in options.items() if (v := as_number(o)) is not None and 0 < v < 1e9})
    if any(name not in shape for name in _NEEDED):
        return
    gated = _on(options, "swiglu")
    shape["tied"] = not _on(options, "untie_embeddings_and_output_weights")
    shape["gated"] = gated
    if gated and "inner" not in shape:
        shape["inner"] = int(4 * int(str(shape["width"])) * 2 / 3 / 64) * 64
    if not (_on(options, "group_query_attention") or _on(options, "swiglu")):
        shape.pop("kv_heads", None)
    if as_text(options.get("normalization")) == "RMSNorm":
        shape["norm"] = "rms"
    if _on(options, "disable_bias_linear"):
        shape["biases"] = "none"
    positions = as_number(options.get("max_position_embeddings"))
    if as_text(options.get("position_embedding_type")) in (None, "learned_absolute", "absolute") and positions:
        shape["positions"] = int(positions)
    padded = as_number(options.get("pad_vocab_size_to"))
    shape["vocabulary"] = int(padded) if padded else shape.get("vocabulary", _MEGATRON_VOCABULARY)
    shape["embedding_norm"] = _on(options, "embed_layernorm")
    layers = reading.settings.get("layers")
    _offer(reading, shape, 0.82, layers.origin if layers is not None else Origin("launch", 1), counts=True)


def _on(options: Mapping[str, Val], name: str) -> bool:
    return as_flag(options.get(name)) is True


def _of_own_class(reading: Reading, training: Training) -> None:
    """A configuration that a class of the tree is given: its sizes, without what the class makes of them."""
    model = trained_model(reading, training)
    if not isinstance(model, Obj):
        return
    arguments = model.call.args if model.call is not None else []
    for config in (model.attrs.get("config"), model.attrs.get("params"), *arguments[:1]):
        values = config.attrs if isinstance(config, Obj) else config.items if isinstance(config, Map) else None
        if not values:
            continue
        numbers = {str(n): int(v) for n, o in values.items() if (v := as_number(o)) is not None and 0 < v < 1e9}
        shape = common_shape(numbers)
        if all(name in shape for name in _NEEDED):
            _offer(reading, {n: v for n, v in shape.items() if n != "tied"}, 0.7, model.origin, counts=False)
            return


def _offer(reading: Reading, shape: dict[str, JsonValue], sure: float, origin: Origin, *, counts: bool) -> None:
    """Offer the shape, and its parameters where all of it is known, if it is one at all."""
    try:
        built = Transformer(**shape)  # type: ignore[arg-type]
        parameters = size(built, 1).parameters
    except (TypeError, ValueError, ZeroDivisionError):
        return
    reading.offer("model_shape", shape, sure, origin, "computed")
    if counts and built.vocabulary:
        reading.offer("model_params_approx", int(parameters), sure, origin, "computed")
