"""Nothing of a job is executed, imported, written or connected to; what is odd about its files harms nobody."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source import analyze
from analyzers.source.decoding import decoded
from analyzers.source.files import FILES_MAX, Tree
from analyzers.types import Submission

#: Audit events that running, importing, writing or talking to anything would raise.
_FORBIDDEN = ("exec", "import", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "marshal.", "pickle.", "code.")
_ALLOWED = frozenset({"os.scandir", "os.listdir"})
_events: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _events is None:
        return
    if event.startswith(_FORBIDDEN) and event not in _ALLOWED:
        _events.append(f"{event} {arguments!r:.200}")
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        _events.append(f"written: {arguments!r:.200}")


sys.addaudithook(_note)


def quietly(action: Callable[[], object]) -> list[str]:
    """The forbidden events that an action raises."""
    global _events
    _events = events = []
    try:
        action()
    finally:
        _events = None
    return events


def traps(mark: Path) -> dict[str, str]:
    """A job all of whose files leave a mark when run or imported by anything."""
    boom = f"open({str(mark)!r}, 'w').write('x')\n"
    train = (
        "import conf, mine, torch, yaml\nfrom mine.deep import part\n"
        + boom
        + f"eval({boom.strip()!r})\nexec({boom!r})\n"
        f"compile({boom!r}, 'x', 'exec')\n__import__('mine')\nimport importlib\nimportlib.import_module('mine')\n"
        f"class M(type):\n  def __call__(cls): open({str(mark)!r}, 'w')\nclass A(metaclass=M): pass\nA()\n"
        f"yaml.unsafe_load(open('c.yaml'))\nimport pickle, runpy\npickle.load(open('p.pkl', 'rb'))\n"
        "runpy.run_path('mine/deep.py')\nopt = torch.optim.SGD([], lr=1)\nfor e in range(2): opt.step()\n"
    )
    return {
        "train.py": train, "mine/__init__.py": boom, "mine/deep.py": boom + "part = 1\n", "mine/__main__.py": boom,
        "conf.py": boom, "conftest.py": boom, "sitecustomize.py": boom, "usercustomize.py": boom, "setup.py": boom,
        "__init__.py": boom, "__main__.py": boom, "analyzers/__init__.py": boom, "analyzers/source/__init__.py": boom,
        "schedmate/__init__.py": boom, "schedmate/cli.py": boom, "predictors.py": boom, "prompts.py": boom,
        "torch/__init__.py": boom, "yaml.py": boom, "ast.py": boom, "json.py": boom, "typer.py": boom, "rich.py": boom,
        "encodings/__init__.py": boom, "x.pth": f"import os; {boom}", "python3": f"#!/bin/sh\ntouch {mark}\n",
        "bash": f"#!/bin/sh\ntouch {mark}\n", "Makefile": f"all:\n\ttouch {mark}\n$(shell touch {mark})\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
        '[project.entry-points."schedmate.engines"]\nx = "conf:x"\n[tool.pytest.ini_options]\naddopts = "-p conf"\n',
        "setup.cfg": "[options.entry_points]\nschedmate.cli =\n  x = conf:x\n", "ruff.toml": "extend = 'x.toml'\n",
        "c.yaml": f"a: !!python/object/apply:os.system ['touch {mark}']\nb: !!python/name:conf.x\n",
        "p.pkl": f"cos\nsystem\n(S'touch {mark}'\ntR.", ".env": f"X=$(touch {mark})\n",
        "run.sh": f"#!/bin/bash\nsource .env\ntouch {mark}\nX=$(touch {mark})\n: ${{Y:=`touch {mark}`}}\n"
        f"cat <(touch {mark})\neval 'touch {mark}'\ntrap 'touch {mark}' EXIT\n"
        f"python train.py --x \"$(touch {mark})\"\n",
    }  # fmt: skip


COMMANDS = [
    "python train.py", "bash run.sh", "sbatch run.sh", "python -m mine", "./bash run.sh", "make", "python setup.py",
    "accelerate launch train.py", "torchrun train.py", "python $(touch MARK) `touch MARK` train.py; touch MARK",
]  # fmt: skip


def test_no_line_of_the_job_runs(tmp_path: Path, kit: SimpleNamespace) -> None:
    mark = tmp_path / "ran"
    tree = kit.grow(tmp_path / "job", traps(mark))
    kit.read(kit.grow(tmp_path / "warm", traps(tmp_path / "other")), "bash run.sh")  # our own lazy imports
    before = sorted(sys.modules), list(sys.path), dict(os.environ), Path.cwd()
    for command in COMMANDS:
        command = command.replace("MARK", str(mark))
        kit.read(tree, command)
        events = quietly(lambda command=command: analyze(Submission(command, tree)))
        assert events == [], command
    assert (sorted(sys.modules), list(sys.path), dict(os.environ), Path.cwd()) == before
    assert not mark.exists()
    assert not list(tree.rglob("__pycache__"))


def test_no_line_runs_from_inside_the_folder(tmp_path: Path, kit: SimpleNamespace, schedmate) -> None:
    mark = tmp_path / "ran"
    tree = kit.grow(tmp_path / "job", traps(mark))
    for name in ("python3", "bash"):
        (tree / name).chmod(0o755)
    env = {"PATH": f"{tree}:{os.environ['PATH']}", "PYTHONPATH": str(tree), "PYTHONSTARTUP": str(tree / "conf.py")}
    done = schedmate("analyze", ".", "--command", "bash run.sh", "--json", cwd=tree, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["facts"]["framework"]["value"] == "pytorch"
    assert not mark.exists()


def test_files_that_are_no_files(tmp_path: Path, kit: SimpleNamespace) -> None:
    names = ["fifo.py", "sock.py", "zero.py", "full.py", "tty.py", "dir.py", "loop.py", "outside.py", "gone.py"]
    tree = kit.grow(tmp_path / "job", {"ok.py": "".join(f"import {n[:-3]}\n" for n in names) + "import torch\n"})
    outside = kit.grow(tmp_path / "outside", {"secret.py": "import torch\nEPOCHS = 77\n"})
    os.mkfifo(tree / "fifo.py")
    with socket.socket(socket.AF_UNIX) as server:
        where = Path.cwd()
        os.chdir(tree)  # a socket's path must be short
        try:
            server.bind("sock.py")
        finally:
            os.chdir(where)
        for name, target in [("zero", "/dev/zero"), ("full", "/dev/full"), ("tty", "/dev/tty"), ("loop", "loop.py"),
                             ("outside", outside / "secret.py"), ("gone", "nowhere.py")]:  # fmt: skip
            (tree / f"{name}.py").symlink_to(target)
        (tree / "dir.py").mkdir()
        (tree / "up").symlink_to("..")
        for command in [f"python {n}" for n in [*names, "ok.py", "up/outside/secret.py", "../outside/secret.py"]]:
            facts = kit.read(tree, command)
            assert facts.value("epochs") is None
        for name in names:
            kit.read(tree, f"bash {name}")
            kit.read(tree, f"deepspeed ok.py --deepspeed_config {name}")


@pytest.mark.skipif(os.geteuid() == 0, reason="this user may read everything")
def test_closed_files_are_told(tmp_path: Path, kit: SimpleNamespace) -> None:
    tree = kit.grow(tmp_path, {"e.py": "import part\n", "part.py": "x = 1\n"})
    (tree / "part.py").chmod(0)
    assert any("part.py: can not be read" in warning for warning in kit.read(tree, "python e.py").warnings)


def test_a_file_that_can_not_be_opened_is_told(
    tmp_path: Path, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = kit.grow(tmp_path, {"e.py": "import datasets\nimport part\n", "part.py": "x = 1\n", "datasets.py": ""})
    real_open = os.open

    def refusing(path: str, flags: int, *more: int, **options: int) -> int:
        if str(path).endswith(("part.py", "datasets.py")):
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refusing)
    facts = kit.read(tree, "python e.py")
    assert any("part.py: can not be read (Permission denied)" in warning for warning in facts.warnings)


def test_files_that_vanish_or_change_meanwhile(
    tmp_path: Path, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = kit.grow(tmp_path, {"e.py": "import part, other\n", "part.py": "x = 1\n", "other.py": "y = 1\n"})
    is_file = Tree.is_file

    def then_change(self: Tree, path: str) -> bool:
        found = is_file(self, path)
        if path == "part.py":
            (tree / path).unlink(missing_ok=True)
        if path == "other.py" and (tree / path).is_file():
            (tree / path).unlink()
            os.mkfifo(tree / path)
        return found

    monkeypatch.setattr(Tree, "is_file", then_change)
    assert any("part.py: vanished" in warning for warning in kit.read(tree, "python e.py").warnings)


def test_names_that_steer_a_terminal(tmp_path: Path, kit: SimpleNamespace, schedmate) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    tree = kit.grow(tmp_path / "job", {f"{evil}.py": "import torch\n1 +\n", "e.py": f"from timm import create_model\n"
                    f"m = create_model('{evil}resnet')\nraise '\n", "a\nb.py": "print 'x'\n(((\n"})  # fmt: skip
    with open(os.fsencode(tree) + b"/\xff\xfe.py", "wb") as file:  # noqa: PTH123 (not a text path)
        file.write(b"import torch\n1 +\n")
    for command in (
        f"python '{evil}.py'",
        f"python {evil}.py --x {evil}",
        "python $'\\xff\\xfe.py'",
        "python 'a\nb.py'",
    ):
        facts = kit.read(tree, command)
        assert all(warning.isprintable() for warning in facts.warnings)
        assert all(str(fact.value).isprintable() for fact in facts.facts.values())
        for words in (("--json",), ()):
            done = schedmate("analyze", tree, "--command", command, *words)
            assert done.returncode == 0, done.stderr
            shown = done.stdout + done.stderr
            assert not {c for c in shown if not c.isprintable()} - {"\n"}


def test_a_file_name_of_surrogates(tmp_path: Path, kit: SimpleNamespace, schedmate) -> None:
    name = os.fsdecode(b"\xff\xfe.py")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / name).write_text(
        "import torch\nopt = torch.optim.SGD([], lr=1)\nfor e in range(9): opt.step()\n"
    )
    facts = analyze(Submission(f"python {name}", tmp_path / "job"))
    assert facts.value("framework") == "pytorch"
    done = schedmate("analyze", tmp_path / "job", "--command", f"python {name}", "--json")
    assert json.loads(done.stdout)["facts"]["framework"]["evidence"]


def test_large_trees(tmp_path: Path, kit: SimpleNamespace) -> None:
    folders = [tmp_path / f"d{i:03}" for i in range(410)]
    for folder in folders:
        folder.mkdir()
        for j in range(3):
            (folder / f"f{j}.py").touch()
    for j in range(5100):
        (folders[0] / f"many{j}.py").touch()
    kit.grow(tmp_path, {"d001/train.py": "import torch\n"})
    assert "d001/train.py" in " ".join(kit.read(tmp_path, "python /elsewhere/train.py").warnings)
    warnings = " ".join(kit.read(tmp_path, "python /elsewhere/none.py").warnings)
    assert "d000: more than 5000 entries" in warnings
    assert "too large to be searched whole" in warnings


def test_more_files_than_are_read(tmp_path: Path, kit: SimpleNamespace) -> None:
    count = FILES_MAX + 50
    files = {f"m{i}.py": "x = 1\n" for i in range(count)}
    kit.grow(tmp_path, {**files, "e.py": "".join(f"import m{i}\n" for i in range(count))})
    assert any("more source than is read" in warning for warning in kit.read(tmp_path, "python e.py").warnings)


def test_a_job_that_warns_without_end(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(
        tmp_path, {"e.py": "".join(f"import m{i}\n" for i in range(80)), **{f"m{i}.py": "1 +\n" for i in range(80)}}
    )
    warnings = kit.read(tmp_path, "python e.py").warnings
    assert len(warnings) == 51
    assert warnings[-1] == "more was left out than is listed here"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 1\n", "x = 1\n"),
        (b"\xef\xbb\xbfx = '\xc3\xa9'\r\n", "x = 'é'\n"),
        ("x = 'é'\n".encode("utf-16"), "x = 'é'\n"),
        ("\ufeffx = 'é'\n".encode("utf-16-be"), "x = 'é'\n"),
        ("# -*- coding: cp1252 -*-\nx = '€'\n".encode("cp1252"), "# -*- coding: cp1252 -*-\nx = '€'\n"),
        ("#!python\n# vim: fileencoding=koi8-r :\n'я'".encode("koi8-r"), "#!python\n# vim: fileencoding=koi8-r :\n'я'"),
        ("x = 'é'\n".encode("latin-1"), "x = 'é'\n"),
        (b"# coding: nonsense\nx = '\xe9'\n", "# coding: nonsense\nx = 'é'\n"),
        (b"# coding: rot13\nx = '\xe9'\n", "# coding: rot13\nx = 'é'\n"),
        (b"a\rb\r\nc", "a\nb\nc"),
        (b"x = 1\0\n", "x = 1\0\n"),
        (b"", ""),
        (b"\x7fELF\x02\x01\x01\0\0\0\0", None),
        (b"PK\x03\x04\x14\0\0\0\x08\0", None),
        (b"\0" * 1000, None),
    ],
)  # fmt: skip
def test_decoding(data: bytes, text: str | None) -> None:
    assert decoded(data) == text


def test_a_utf16_source_is_read(tmp_path: Path, kit: SimpleNamespace) -> None:
    (tmp_path / "e.py").write_bytes(kit.PLAIN["train.py"].encode("utf-16"))
    kit.grow(tmp_path, {"net.py": kit.PLAIN["net.py"]})
    assert kit.read(tmp_path, "python e.py").value("epochs") == 7


def test_a_statement_given_up_leaves_no_condition_behind(tmp_path: Path, kit: SimpleNamespace) -> None:
    """Its conditions, loops and branches must not count for what follows it."""
    deep = "if u:\n  if v:\n    x = a" + ".b" * 900 + "\n"
    elifs = "if w: pass\n" + "".join(f"elif w == {i}: y = {i}\n" for i in range(900))
    code = kit.PLAIN["train.py"].replace("if __name__", f"{deep}{elifs}if __name__")
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": code})
    facts = kit.read(tmp_path, "python train.py --save")
    assert any("too deeply nested" in warning for warning in facts.warnings)
    assert (facts.value("epochs"), facts.value("batch_size_per_gpu"), facts.value("checkpoints")) == (7, 50, True)


def test_a_long_chain_of_elifs_on_a_known_value(tmp_path: Path, kit: SimpleNamespace) -> None:
    chain = "n = 1500\nif n == -1: pass\n" + "".join(f"elif n == {i}: EPOCHS = {i}\n" for i in range(1600))
    code = (
        kit.PLAIN["train.py"]
        .replace("if __name__", f"{chain}if __name__")
        .replace("range(args.epochs)", "range(EPOCHS)")
    )
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": code})
    assert kit.read(tmp_path, "python train.py").value("epochs") == 1500


def test_the_reader_starts_no_process_whatever_it_is_given(tmp_path: Path, kit: SimpleNamespace) -> None:
    """The hook is no decoration: it sees what is forbidden."""
    assert quietly(lambda: subprocess.run(["true"], check=True))
    assert quietly(lambda: (tmp_path / "x").write_text(""))
    assert quietly(lambda: exec(compile("pass", "x", "exec")))
