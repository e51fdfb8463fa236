"""Which jobs are like a job: ways to tell, compared by what the ended jobs that they find say of its duration.

    python -m benchmarks.likeness [--jobs 1500] [--seed 1] [--generator semantic] [--jobs-alike 20]
        [--minilm FOLDER]

All jobs are synthetic. In order of time, of the jobs that had ended when a job was submitted the most similar ones are
looked up, and the median of their durations, weighted by similarity, is what they say. Compared are

- *newest*: the latest ended jobs of all (what any likeness has to beat);
- *user*: the latest ended jobs of the same user, or else of all;
- *signs*: what SchedMate looks up (`analyzers.history`): weighted signs of code, user, name, command and request;
- *n-grams*: TF-IDF of character n-grams (3 to 5) of user, name and command, by their cosine;
- *wordllama*, *MiniLM*: embeddings of the same text, where the package and its weights are on this machine
  (those of MiniLM may be in FOLDER, as `transformers` saves a model);
- *signs, n-grams*: the signs with the command's part told by n-grams in place of shared words (their mean).

*Factor* is the median of max(said, true) / min(said, true); *new users* are jobs of users of whom none had ended. Time
is of one lookup, the text's reading included, among all the jobs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, Submission
from benchmarks.prediction_baselines import in_time
from benchmarks.semantic_prediction import GENERATORS, read
from predictors.online import weighted_median
from schedmate.workload import WorkloadSpec

Floats = NDArray[np.float64]
Said = list[tuple[JobRecord, float]]
#: The words that n-grams are weighed by: those of so many first jobs.
_WEIGHED_BY = 300
_MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class Likeness(Protocol):
    """``ended(record)`` in order of the ends; ``similar(record, count)``: the most similar ones with a weight."""

    def ended(self, record: JobRecord) -> None: ...
    def similar(self, record: JobRecord, count: int) -> Said: ...


class Newest:
    """The latest ended jobs, of the same user where ``by_user`` and where there are any."""

    def __init__(self, *, by_user: bool) -> None:
        self._by_user, self._all = by_user, list[JobRecord]()
        self._of: dict[str | None, list[JobRecord]] = {}

    def ended(self, record: JobRecord) -> None:
        self._all.append(record)
        self._of.setdefault(record.user, []).append(record)

    def similar(self, record: JobRecord, count: int) -> Said:
        some = (self._of.get(record.user) if self._by_user else None) or self._all
        return [(each, 1.0) for each in some[-count:]]


class Signs:
    """The history that predictions rest on."""

    def __init__(self) -> None:
        self._store = MemoryHistoryStore()

    def ended(self, record: JobRecord) -> None:
        self._store.add([record])

    def similar(self, record: JobRecord, count: int) -> Said:
        return self._store.similar(asked(record), record.fingerprint or "", k=count)


class Vectors:
    """The nearest by the cosine of vectors of unit length that ``embed`` makes of a text."""

    def __init__(self, embed: Callable[[str], Floats]) -> None:
        self._embed, self._records = embed, list[JobRecord]()
        self._table = np.zeros((0, 0))

    def ended(self, record: JobRecord) -> None:
        vector = self._embed(text_of(record))
        if len(self._records) >= len(self._table):
            more = np.zeros((max(64, len(self._table)), len(vector)))
            self._table = np.vstack([self._table.reshape(-1, len(vector)), more])
        self._table[len(self._records)] = vector
        self._records.append(record)

    def cosines(self, record: JobRecord) -> Floats:
        """With each job that has ended, in the order of their ends."""
        cosines: Floats = self._table[: len(self._records)] @ self._embed(text_of(record))
        return cosines

    def similar(self, record: JobRecord, count: int) -> Said:
        near = self.cosines(record) if self._records else np.zeros(0)
        # Of equally near ones the latest.
        best = np.lexsort((np.arange(len(near)), near))[::-1][:count]
        return [(self._records[at], max(0.0, float(near[at]))) for at in best]


class Both:
    """Those that the signs find, weighted by the mean of both."""

    def __init__(self, embed: Callable[[str], Floats]) -> None:
        self._signs, self._embed = Signs(), embed
        self._known: dict[str, Floats] = {}

    def ended(self, record: JobRecord) -> None:
        self._signs.ended(record)
        self._known[record.job_id] = self._embed(text_of(record))

    def similar(self, record: JobRecord, count: int) -> Said:
        vector = self._embed(text_of(record))
        found = self._signs.similar(record, 4 * count)
        both = [(each, 0.5 * (share + float(self._known[each.job_id] @ vector))) for each, share in found]
        return sorted(both, key=lambda pair: -pair[1])[:count]


def asked(record: JobRecord) -> Submission:
    """The job as it was submitted."""
    return Submission(
        record.command or "", user=record.user, tenant=record.tenant, name=record.name, gpus=record.gpus or None,
        gpu_type=record.gpu_type, limit_s=record.requested_s, submit_s=record.submit_s,
    )  # fmt: skip


def text_of(record: JobRecord) -> str:
    """What there is to read of a job before it runs."""
    return f"{record.user or ''} {record.name or ''} {record.command or ''}"


def n_grams(records: Sequence[JobRecord]) -> Callable[[str], Floats]:
    """TF-IDF, its weights from the first jobs alone."""
    vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), max_features=4096)
    vectors.fit([text_of(record) for record in records[:_WEIGHED_BY]])
    return lambda text: np.asarray(vectors.transform([text]).toarray()[0], dtype=np.float64)


def wordllama() -> Callable[[str], Floats] | None:
    """Static word vectors, pooled; None where they are not installed. Nothing is fetched."""
    try:
        import wordllama as package  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    return lambda text: _unit(model.embed([text])[0])


def minilm(weights: str = _MINILM) -> Callable[[str], Floats] | None:
    """A sentence transformer, mean of its last states; None where its weights are not on this machine."""
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer

        reads = AutoTokenizer.from_pretrained(weights, local_files_only=True)
        model = AutoModel.from_pretrained(weights, local_files_only=True)
    except (ImportError, OSError, ValueError):
        return None

    def embed(text: str) -> Floats:
        with torch.no_grad():
            states = model(**reads(text, return_tensors="pt", truncation=True)).last_hidden_state
        return _unit(states[0].mean(dim=0).numpy())

    return embed


def _unit(vector: Any) -> Floats:
    found = np.asarray(vector, dtype=np.float64)
    return found / max(1e-12, float(np.linalg.norm(found)))


def say_s(said: Said) -> float | None:
    """The median of the durations in seconds, weighted by similarity; None where nothing was found."""
    pairs = [(each.duration_s or 0.0, weight) for each, weight in said if weight > 0]
    return weighted_median(pairs) if pairs else None


def walk(records: Sequence[JobRecord], likeness: Likeness, count: int) -> Iterator[tuple[float, bool, float]]:
    """(logarithm of the factor, whether the user is new, seconds that the lookup took) of each job but the first."""
    seen: set[str | None] = set()
    for record, ended in in_time(records):
        for each in ended:
            likeness.ended(each)
            seen.add(each.user)
        start_s = time.process_time()
        said = say_s(likeness.similar(record, count))
        took_s = time.process_time() - start_s
        if said is not None:
            yield abs(math.log(max(1.0, said) / max(1.0, record.duration_s or 0.0))), record.user not in seen, took_s


def row(name: str, found: Sequence[tuple[float, bool, float]]) -> str:
    """One line of the table."""
    logs, new, took_s = (np.array(each) for each in zip(*found, strict=True))
    of_new = f"{math.exp(np.median(logs[new])):.2f}" if new.any() else "-"
    p50, p99 = np.percentile(took_s * 1e3, (50, 99))
    return f"| {name} | {len(found):,} | {math.exp(np.median(logs)):.2f} | {of_new} | {p50:.1f} | {p99:.1f} |"


def main() -> None:
    """Print a table for each set of jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generator", choices=tuple(GENERATORS), action="append", help="default: both")
    parser.add_argument("--jobs-alike", type=int, default=20, help="so many are looked up (default 20)")
    parser.add_argument("--minilm", default=_MINILM, metavar="FOLDER", help="the weights of MiniLM")
    wanted = parser.parse_args()
    sets: list[tuple[str, list[JobRecord]]] = []
    for name in wanted.generator or tuple(GENERATORS):
        with tempfile.TemporaryDirectory(prefix="schedmate-likeness-") as scratch:
            records, _ = read(GENERATORS[name](WorkloadSpec(seed=wanted.seed, jobs=wanted.jobs)), Path(scratch))
        sets.append((f"{name} {wanted.seed}", records))
    embeddings = {"wordllama": wordllama(), "MiniLM": minilm(wanted.minilm)}
    for name, embed in embeddings.items():
        if embed is None:
            print(f"{name}: left out, it is not on this machine\n")
    for name, records in sets:
        print(f"| {name} | jobs | factor | new users | lookup ms | 99 % ms |\n|---|---|---|---|---|---|")
        tfidf = n_grams(records)
        ways: dict[str, Likeness] = {
            "newest": Newest(by_user=False), "user": Newest(by_user=True), "signs": Signs(), "n-grams": Vectors(tfidf),
            **{way: Vectors(embed) for way, embed in embeddings.items() if embed is not None},
            "signs, n-grams": Both(tfidf),
        }  # fmt: skip
        for way, likeness in ways.items():
            print(row(way, list(walk(records, likeness, wanted.jobs_alike))), flush=True)
        print()


if __name__ == "__main__":
    main()
