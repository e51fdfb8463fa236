"""What libraries call the shape of a transformer, translated into the names of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from analyzers.source.knowledge.files import document
from analyzers.types import JsonValue

#: A library's name for a size -> ours, where it is the same in most of them.
COMMON: Mapping[str, str] = {
    "num_hidden_layers": "layers", "n_layer": "layers", "n_layers": "layers", "num_layers": "layers",
    "hidden_size": "width", "n_embd": "width", "n_embed": "width", "d_model": "width", "dim": "width",
    "embed_dim": "width", "num_attention_heads": "heads", "n_head": "heads", "n_heads": "heads", "num_heads": "heads",
    "num_key_value_heads": "kv_heads", "n_kv_heads": "kv_heads", "n_kv_head": "kv_heads",
    "num_query_groups": "kv_heads", "intermediate_size": "inner", "n_inner": "inner", "ffn_dim": "inner",
    "ffn_hidden_size": "inner", "d_ff": "inner", "head_dim": "head_width", "kv_channels": "head_width",
    "vocab_size": "vocabulary", "padded_vocab_size": "vocabulary", "tie_word_embeddings": "tied",
    "num_local_experts": "experts", "num_experts": "experts", "num_experts_per_tok": "experts_used",
    "moe_router_topk": "experts_used", "moe_intermediate_size": "expert_inner", "moe_ffn_hidden_size": "expert_inner",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Configuration:
    """A library's configuration class."""

    like: Mapping[str, JsonValue] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, JsonValue] = field(default_factory=dict)

    def tells(self, name: str) -> bool:
        """Whether an option of this class is about the model's shape."""
        return name in self.names or name in COMMON

    def shape(self, given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The transformer's shape under these options, the class's defaults filled in."""
        options = {**self.defaults, **{k: v for k, v in given.items() if v is not None}}
        names = {**COMMON, **self.names}
        return {**self.like, **{names[name]: value for name, value in options.items() if name in names}}


@cache
def _all() -> dict[str, Configuration]:
    rows = document("configurations.yaml")["configurations"]
    return {
        row["class"]: Configuration(row.get("like", {}), row.get("names", {}), row.get("defaults", {})) for row in rows
    }


def configuration(class_name: str) -> Configuration | None:
    """A configuration class by its plain name, or None."""
    return _all().get(class_name)


def common_shape(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What options say about a transformer's shape, by the names that most programs use."""
    found: dict[str, JsonValue] = {}
    for name, value in given.items():
        ours = COMMON.get(name)
        if ours is not None and value is not None:
            found.setdefault(ours, value)
    return found
