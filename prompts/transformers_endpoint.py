"""A model on this machine through `transformers` (extra ``local``): nothing leaves it, nothing is downloaded.

Imported only when such a model is configured. One request at a time: two would only take turns on the same cores.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prompts.endpoint import LONGEST_ANSWER_TOKENS, EndpointError, NotSupportedError, Reply, Tokens, TooSlowError
from prompts.errors import UserError
from prompts.templates import Message

#: Of the time that is left; what has been said by then is still looked at.
_USED_FOR_ANSWERING = 0.9
_INSTALL = "install SchedMate with its extra `local` (pip install 'schedmate[local]')"


class TransformersEndpoint:
    """Chat completions of a causal language model in a folder (or a .gguf file) of this machine.

    It is loaded at the first request. ``threads`` are those of PyTorch on the CPU; a GPU is used where there is one.
    """

    def __init__(self, *, model: str, threads: int = 1) -> None:
        path = Path(model).expanduser()
        if not path.exists():
            raise UserError(f"llm.model: {model}: no such folder or .gguf file", "give the path of a downloaded model")
        try:
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            raise UserError(f"llm.provider transformers: {error.name} is not installed", _INSTALL) from None
        self.name = path.name
        self._path, self._threads = path, max(1, threads)
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def complete(self, messages: Sequence[Message], response_format: dict[str, Any] | None, timeout_s: float) -> Reply:
        """One request; see `prompts.endpoint.Endpoint`. Forms of answers are only asked for in words."""
        if response_format is not None:
            raise NotSupportedError("a local model takes no response format")
        deadline = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise TooSlowError("the model was busy with other questions")
        try:
            tokenizer, model = self._load()
            return self._generate(tokenizer, model, messages, deadline)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError) as error:
            raise EndpointError(f"{self.name}: {' '.join(str(error).split())[:300]}") from None
        finally:
            self._lock.release()

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
            from transformers.utils import logging

            logging.set_verbosity_error()
            logging.disable_progress_bar()
            torch.set_num_threads(self._threads)
            where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            folder = self._path
            if self._path.is_file():
                folder, where["gguf_file"] = self._path.parent, self._path.name
            tokenizer = AutoTokenizer.from_pretrained(folder, **where)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", **where)
            model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
            self._loaded = (tokenizer, model)
        return self._loaded

    def _generate(self, tokenizer: Any, model: Any, messages: Sequence[Message], deadline: float) -> Reply:
        import torch

        conversation = [{"role": each.role, "content": each.content} for each in messages]
        asked = tokenizer.apply_chat_template(
            conversation, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(model.device)
        sent = int(asked["input_ids"].shape[1])
        room = int(getattr(model.config, "max_position_embeddings", sent + LONGEST_ANSWER_TOKENS)) - sent
        if room < 1:
            raise EndpointError(f"{self.name}: the question of {sent} tokens is longer than the model can read")
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TooSlowError("loading the model took all the time")
        object_ends = _ObjectEnds(tokenizer, sent)
        with torch.inference_mode():
            answered = model.generate(
                **asked,
                max_new_tokens=min(LONGEST_ANSWER_TOKENS, room),
                do_sample=False,
                max_time=_USED_FOR_ANSWERING * left_s,
                stopping_criteria=[object_ends],
            )
        new = answered[0][sent:]
        ended = object_ends.met or (len(new) > 0 and int(new[-1]) in _ends(model))
        text = tokenizer.decode(new, skip_special_tokens=True)
        return Reply(text or None, cut=not ended, tokens=Tokens(sent, len(new)))


class _ObjectEnds:
    """Ends an answer with its first whole JSON object: small models do not know where to stop."""

    def __init__(self, tokenizer: Any, sent: int) -> None:
        self._tokenizer, self._sent = tokenizer, sent
        self.met = False

    def __call__(self, ids: Any, scores: Any, **more: Any) -> Any:
        """A tensor of one boolean a sequence, as `transformers.StoppingCriteria` returns it."""
        import torch

        if "}" in self._tokenizer.decode(ids[0][-1:]):
            self.met = _has_object(self._tokenizer.decode(ids[0][self._sent :], skip_special_tokens=True))
        return torch.full((ids.shape[0],), self.met, dtype=torch.bool, device=ids.device)


def _has_object(text: str) -> bool:
    """Whether a JSON object with something in it stands in the text."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            if decoder.raw_decode(text, at)[0]:
                return True
        except (ValueError, RecursionError):
            pass
        at = text.find("{", at + 1)
    return False


def _ends(model: Any) -> set[int]:
    found = model.generation_config.eos_token_id
    return set(found) if isinstance(found, list) else {found}
