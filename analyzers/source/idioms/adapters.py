"""Training that touches few of the weights: adapters (LoRA and the like), and weights that are loaded in few bits."""

from __future__ import annotations

from analyzers.source.program.events import Call
from analyzers.source.program.values import Obj, Val
from analyzers.source.reading import Reading, as_flag

_ADAPTED = ("peft.get_peft_model", "peft.PeftModel.from_pretrained", "peft.mapping.get_peft_model")
_BITS = (("load_in_4bit", 4), ("load_in_8bit", 8))


def offer_adapters(reading: Reading) -> None:
    """``adapters`` and ``weight_bits``, where a call says so; nothing is concluded from their absence."""
    if reading.value("workload_type") not in ("train", "finetune"):
        return
    made = [c for c in reading.calls if c.path in _ADAPTED or _handed(c)]
    if made:
        certain = [c for c in made if not c.guards]
        reading.offer("adapters", True, 0.85 if certain else 0.6, (certain or made)[0].origin)
    for call in reading.calls:
        for name, bits in _BITS:
            if as_flag(call.kwargs.get(name)) is True and call.path.startswith(("transformers.", "unsloth.")):
                reading.offer("weight_bits", bits, 0.85 if not call.guards else 0.6, call.origin)


def _handed(call: Call) -> bool:
    """A trainer that is given a configuration of adapters makes them itself."""
    config: Val | None = call.kwargs.get("peft_config")
    return call.path.startswith("trl.") and isinstance(config, Obj) and config.call is not None
