"""What a job learns from: the data set's name, and the size of its samples (image side, sequence length)."""

from __future__ import annotations

import re

from analyzers.source.idioms.named import launch_options, measured_only
from analyzers.source.knowledge.lookup import dataset_entry
from analyzers.source.program.events import Call
from analyzers.source.program.values import Func, Origin, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_number, as_text, matches

#: Parts of a path or name that say how data is kept, split or where, not which data it is.
_GENERIC = re.compile(
    r"(the|my|your|our|path|to|of|data|datas|dataset|datasets|dataroot|root|dir|folder|home|mnt|media|scratch|work|"
    r"workspace|tmp|opt|usr|var|content|users?|projects?|shared?|storage|nfs|raw|processed|preprocessed|clean|train|"
    r"training|trainset|val|valid|validation|valset|dev|eval|test|testing|testset|split|splits|images?|imgs?|pictures?|"
    r"photos?|labels?|annotations?|files?|texts?|inputs?|outputs?|out|source|target|src|tgt|samples?|examples?|input|"
    r"corpus|docs?|json|jsonl|csv|tsv|txt|npz|npy|bin|h5|parquet|arrow|pt|pkl|custom|default|none|null|auto|demo|toy|"
    r"imagefolder|image|folder|synthetic|random|dummy|fake|full|small|large|subset|local|cache|cached|tokenized|x|y)",
    re.IGNORECASE,
)
_FILE = re.compile(r"\.(ya?ml|jsonl?|csv|tsv|txt|zip|tgz|tar(\.gz)?|npz|npy|h5|hdf5|pkl|pt|parquet|arrow|bin|data)$")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")


def offer_dataset(reading: Reading) -> None:
    """``dataset``: the name under which it is loaded."""
    found = [(name, sure, call) for call in reading.calls for name, sure in [_dataset_of(call) or ("", 0.0)] if name]
    if reading.value("workload_type") in ("train", "finetune"):
        found = [f for f in found if not _only_measured(reading, f[2])]
    surest = max((sure for _, sure, _ in found), default=0.0)
    names = {name for name, sure, _ in found if sure == surest}
    # One of several branches, and not known which.
    undecided = len(names) > 1 and all(call.guards for _, sure, call in found if sure == surest)
    for name, sure, call in found:
        reading.offer("dataset", name, 0.4 if undecided else sure, call.origin)
    if "dataset" in reading.facts and reading.facts["dataset"].confidence >= 0.8:
        return
    setting = reading.settings.get("dataset")
    if setting is not None and not undecided:
        listed = isinstance(setting.value, Seq)
        text = _readable_text(setting.value)
        told = text if listed and text else told_name(text or "")
        reading.offer("dataset", told, setting.confidence, setting.origin)
    options = launch_options(reading)
    tasks = as_text(options.get("task_list")) or as_text(options.get("tasks"))
    if tasks and reading.launch.entry is None:
        reading.offer("dataset", tasks[:200], 0.7, Origin("launch", 1))


def _only_measured(reading: Reading, call: Call) -> bool:
    """Whether a data set is opened where the launch says that validation or test data are."""
    where = as_text(call.argument(0, "root"))
    return where is not None and measured_only(reading, where)


def told_name(text: str) -> str | None:
    """Which data set a path or a name speaks of: a published one's usual name, else the last part that tells it apart.

    None where every part is one that any data set could have (``data/train``, ``input.txt``).
    """
    parts = [part for part in text.strip().rstrip("/").split("/") if part not in ("", ".", "..", "~")]
    for part in reversed(parts):
        stem = _FILE.sub("", part)
        entry = dataset_entry(stem) if "/" in text or stem != part else None
        if entry is not None:
            return entry.name
    if "/" in text and not text.startswith((".", "/", "~")) and len(parts) == 2 and all(map(_tells, parts)):
        return text.rstrip("/")  # an owner and a name, the way a hub writes it
    for part in reversed(parts):
        if _tells(part):
            return part
    return None


def _tells(part: str) -> bool:
    """Whether a part of a path has a word of its own (and is not a date, a number or a generic word)."""
    words = _NAME.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", part).replace("_", " "))
    return any(not _GENERIC.fullmatch(word.rstrip("0123456789")) for word in words)


def _readable_text(value: Val | None) -> str | None:
    if isinstance(value, Seq):
        texts = [t for t in map(as_text, value.items) if t]
        return ", ".join(texts[:6]) or None
    if isinstance(value, Unknown) and value.detail[:1] == ("text",):
        return str(value.detail[1])
    return as_text(value)


def _dataset_of(call: Call) -> tuple[str, float] | None:
    path, name = call.path, call.name
    if matches(path, ("torchvision.datasets.ImageFolder", "datasets.ImageFolder", "ImageFolder")):
        meaningful = told_name(_readable_text(call.argument(0, "root")) or "")
        return (meaningful, 0.7) if meaningful else None
    if matches(path, ("timm.data.create_dataset",)):
        kind, where = as_text(call.argument(0, "name")), _readable_text(call.argument(1, "root"))
        meaningful = told_name(kind or "") or told_name(where or "")
        return (meaningful, 0.8) if meaningful else None
    if "datasets." in path and path.startswith(
        ("torchvision.", "torchtext.", "torchaudio.", "keras.", "tensorflow.keras.")
    ):
        plain = re.sub(r"<[^>]*>", "", path.split("datasets.")[1])
        parts = [p for p in plain.split(".") if p not in ("load_data", "mnist()")]
        entry = dataset_entry(parts[0]) if parts else None
        told = bool(parts) and (entry is not None or parts[0][:1].isupper() or "keras" in path)
        told = told and (entry is not None or parts[0] not in _DATASET_TOOLS)
        return (entry.name if entry else parts[0], 0.93) if told else None
    if name == "load_dataset" and path.split(".")[0] in ("datasets", "nlp", "load_dataset"):
        texts = [t for t in map(as_text, call.args[:2]) if t]
        texts = texts or [t for t in (as_text(call.kwargs.get("path")), as_text(call.kwargs.get("name"))) if t]
        if texts and texts[0] not in ("json", "csv", "text", "parquet", "imagefolder", "audiofolder", "arrow"):
            return " ".join(texts), 0.9
        return None
    if path.startswith("tensorflow_datasets.") and name in ("load", "builder"):
        text = as_text(call.args[0]) if call.args else None
        return (text.partition(":")[0].partition("/")[0], 0.92) if text else None
    if name == "make" and path.split(".")[0] in ("gym", "gymnasium"):
        text = as_text(call.args[0]) if call.args else None
        return (text, 0.9) if text else None
    if path.startswith("torch_geometric.datasets.") and "()" not in path:
        named = next((t for t in (as_text(call.argument(1, "name")),) if t), None)
        return (named or name, 0.9)
    if matches(path, _FETCHES):
        fetched = told_name(as_text(call.argument(0, "fname")) or "")
        return (fetched, 0.7) if fetched else None
    known = re.match(r"torch\.utils\.data(\.dataset)?\.(Dataset|IterableDataset)<", path)
    entry = dataset_entry(path.partition("<")[2].rstrip(">").removesuffix("Dataset")) if known else None
    return (entry.name, 0.6) if entry is not None else None


#: Parts of the libraries of published data sets that are no data set.
_DATASET_TOOLS = ("DatasetFolder", "ImageFolder", "VisionDataset")
_FETCHES = ("keras.utils.get_file", "keras.utils.data_utils.get_file", "keras.src.utils.get_file")


# --- sizes of samples ---------------------------------------------------------------------------------------------

_RESIZES = frozenset({"resize", "resize_images", "random_crop", "randomresizedcrop", "centercrop", "randomcrop",
                      "resize_with_crop_or_pad", "crop_and_resize", "sample_distorted_bounding_box"})  # fmt: skip
_CROPS = ("RandomResizedCrop", "CenterCrop", "RandomCrop", "Resize")


def offer_sample_sizes(reading: Reading) -> None:
    """``image_size`` for image jobs and ``seq_len`` for text jobs."""
    task = str(reading.value("task") or "")
    sees = any(
        c.path.startswith(("torchvision.transforms", "torchvision.datasets", "timm.data")) for c in reading.calls
    )
    if task.startswith("image") or "detection" in task or "segmentation" in task or (sees and "seq" not in task):
        _image_size(reading)
    elif task and not task.startswith(("toy", "reinforcement")):
        setting = reading.number("seq_len")
        if setting is not None and setting[0] > 0:
            reading.offer("seq_len", int(setting[0]), max(0.7, setting[1].confidence), setting[1].origin)


def _image_size(reading: Reading) -> None:
    for crop in _CROPS:
        for call in reading.calls:
            if call.name == crop and "transforms" in call.path:
                value = call.argument(0, "size")
                value = value.items[0] if isinstance(value, Seq) and value.items else value
                number = as_number(value)
                if number is not None and number > 0:
                    reading.offer("image_size", int(number), 0.85, call.origin)
                    return
    setting = reading.number("image_size")
    known = dataset_entry(str(reading.value("dataset") or ""))
    if setting is not None and known is not None and setting[0] == (known.image_size or 0) ** 2:
        setting = None  # the pixels of a flattened image
    cut = any(call.name in _CROPS and "transforms" in call.path for call in reading.calls)
    if cut and setting is not None and setting[1].confidence < 0.85 and setting[1].origin.how == "literal":
        setting = None  # cut to a size that is not known; what something else is called so by the way is another one
    if setting is not None and 0 < setting[0] < 10_000:
        reading.offer("image_size", int(setting[0]), max(0.7, setting[1].confidence), setting[1].origin)
        return
    fed = as_number(reading.machine.reads.get("input_size"))
    if fed is not None and 0 < fed < 10_000 and any(call.name.endswith("Conv2d") for call in reading.calls):
        reading.offer("image_size", int(fed), 0.7, getattr(reading.machine.reads["input_size"], "origin", None))
        return
    if any(c.name.lower() in _RESIZES for c in [*reading.calls, *_in_the_pipeline(reading)]):
        return  # to a size that was not understood
    entry = dataset_entry(str(reading.value("dataset") or ""))
    if entry is not None and entry.image_size and entry.name not in ("ImageNet", "FakeData"):
        reading.offer("image_size", entry.image_size, 0.8, None, "looked_up")


def _in_the_pipeline(reading: Reading) -> list[Call]:
    """What the functions that a data set is mapped with would call: nothing else calls them."""
    found: list[Call] = []
    for call in [c for c in reading.calls if c.name == "map" and "()" in c.path][:20]:
        mapped = call.argument(0, "map_func", "function")
        if isinstance(mapped, Func):
            before = len(reading.calls)
            reading.machine.call(mapped, [Unknown("sample", call.origin)], {}, call.origin)
            found += reading.calls[before:]
            del reading.calls[before:]
    return found
