"""Tasks told by what a program computes: published methods by their names, losses and measures, the shape of a head."""

from __future__ import annotations

import re

from analyzers.source.program.events import Call
from analyzers.source.program.values import Origin, Unknown, Val
from analyzers.source.reading import Reading, as_number

Task = tuple[str, float, Origin | None]

#: Published ways of learning from images or text without labels. Sources: the papers of these names.
_SELF_SUPERVISED = re.compile(
    r"(^|[^a-z])(sim_?clr|mo_?co(v[123])?|byol|sim_?siam|barlow_?twins?|vicreg|swav|dino(v2)?|mae|sim_?mim|ibot|"
    r"deep_?cluster|masked_?autoencoder\w*|nt_?xent)([^a-z]|$)|dino_?(loss|head)|byol|barlowtwins|simclr|simsiam|masked_?autoencoder",
    re.IGNORECASE,
)
_DIFFUSION = re.compile(r"diffusion|ddpm|ddim|(^|[^a-z])edm([^a-z]|$)|noise_?scheduler", re.IGNORECASE)
_CLASSIFIES = re.compile(r"cross_?entropy|nll_?loss|accuracy|top_?k", re.IGNORECASE)


def names_met(reading: Reading) -> list[tuple[str, Origin]]:
    """Names of the program, of its classes that were made and of its functions that were entered."""
    names = [(reading.launch.program.rpartition("/")[2].rpartition(".")[0], Origin("launch", 1))]
    names += [(c.path.partition("<")[2].rstrip(">"), c.origin) for c in reading.calls if "<" in c.path]
    return names


def learning_method(reading: Reading) -> Task | None:
    """Learning without labels, and learning to undo noise."""
    classifies = any(_CLASSIFIES.search(c.path) for c in reading.calls)
    for name, origin in names_met(reading):
        if _SELF_SUPERVISED.search(name) and reading.value("workload_type") == "train" and not classifies:
            return "self-supervised learning", 0.72, origin
    made = [(name, origin) for name, origin in names_met(reading) if _DIFFUSION.search(name)]
    library = next((c for c in reading.calls if c.path.startswith("diffusers.") and "Scheduler" in c.path), None)
    if library is not None:
        made.append((library.name, library.origin))
    if not made or classifies:
        return None
    images = any(re.search(r"Conv2d|conv_nd|torchvision|PIL\.|UNet2D", c.path) for c in reading.calls)
    return ("image-generation (diffusion)" if images else "generation (diffusion)"), 0.72, made[0][1]


def task_by_kind(reading: Reading) -> Task | None:
    """The task from losses and measures, and from what goes into and comes out of the model."""
    for rule in (_captions, _graphs, _segmentation, _recognition, _language, _vision):
        found = rule(reading)
        if found is not None:
            return found
    return None


def _first(reading: Reading, pattern: str) -> Call | None:
    return next((c for c in reading.calls if re.search(pattern, c.path, re.IGNORECASE)), None)


def _captions(reading: Reading) -> Task | None:
    """Images in, words out: the program says so, and both are met."""
    said = re.search(
        r"caption", reading.launch.program + " " + " ".join(n for n, _ in names_met(reading)), re.IGNORECASE
    )
    words = _first(reading, r"nn\.Embedding$|transformers\.|tokeniz")
    images = _first(reading, r"torchvision|PIL\.|Conv2d|timm")
    return ("image-captioning", 0.75, words.origin) if said and words is not None and images is not None else None


def _graphs(reading: Reading) -> Task | None:
    layer = _first(
        reading, r"torch_geometric\.nn\.\w*Conv|dgl\.nn\S*Conv|<(GCN|GAT|GraphSAGE|GraphConvolution|GIN)\w*>|spmm$"
    )
    if layer is None or _first(reading, _CLASSIFIES.pattern) is None:
        return None
    pooled = _first(reading, r"global_(mean|add|max|sort)_pool|readout")
    return ("graph-classification" if pooled is not None else "node-classification"), 0.7, layer.origin


def _segmentation(reading: Reading) -> Task | None:
    measure = _first(reading, r"dice|\bIoU\b|MeanIoU|jaccard|metrics\.(Binary)?IoU")
    network = _first(
        reading, r"<\w*(UNet|U_Net|SegNet|DeepLab|FCN|SegFormer|Segmentation)\w*>|segmentation_models_pytorch\."
    )
    if measure is not None and (network is not None or _first(reading, r"Conv2DTranspose|ConvTranspose2d|Upsample")):
        return "image-segmentation", 0.75, measure.origin
    return None


def _recognition(reading: Reading) -> Task | None:
    loss = _first(reading, r"ctc_?loss")
    sound = _first(reading, r"torchaudio|librosa|soundfile")
    return ("speech-recognition", 0.7, loss.origin) if loss is not None and sound is not None else None


def _language(reading: Reading) -> Task | None:
    """A vocabulary goes in and comes out: as many embeddings as the last layer has outputs, scored by cross-entropy."""
    rows = [c.argument(0, "num_embeddings") for c in reading.calls if c.path.endswith("nn.Embedding")]
    heads = [c for c in reading.calls if c.path.endswith("nn.Linear") and _as_many(c.argument(1, "out_features"), rows)]
    if heads and _first(reading, r"cross_?entropy|nll_?loss") is not None:
        return "language-modeling", 0.7, heads[-1].origin
    return None


def _as_many(outputs: Val | None, rows: list[Val | None]) -> bool:
    """Whether a layer has one output for each row of an embedding: the same number, or the same unknown."""
    number = as_number(outputs)
    if number is None:
        return isinstance(outputs, Unknown) and any(row is outputs for row in rows)
    return number >= _VOCABULARY_MIN and number in {as_number(row) for row in rows}


_VOCABULARY_MIN = 200


def _vision(reading: Reading) -> Task | None:
    """A network of an image library that is scored by its classes."""
    made = _first(reading, r"^timm\.(models\.)?create_model$|^torchvision\.models\.[a-z]\w*$")
    measure = _first(reading, r"cross_?entropy|accuracy")
    return ("image-classification", 0.72, made.origin) if made is not None and measure is not None else None
