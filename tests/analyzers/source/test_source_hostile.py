"""Work dirs and commands made to break, stall, or run code in the reader."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

#: Generous: these machines are shared; a real stall would take minutes.
SECONDS_MAX = 12.0


def test_nothing_of_the_job_is_run(tmp_path: Path, kit: SimpleNamespace) -> None:
    mark = tmp_path / "ran"
    boom = f"open({str(mark)!r}, 'w').write('x')\n"
    files = {
        "train.py": f"import torch, helper, yaml\nfrom torch import nn\n{boom}\n"
        f"__import__('os').system('touch {mark}')\n"
        f"eval({boom.strip()!r})\nexec({boom!r})\nm = nn.Linear(1, 1)\n",
        "helper.py": boom,
        "torch.py": boom,
        "torch/__init__.py": boom,
        "yaml.py": boom,
        "argparse.py": boom,
        "sitecustomize.py": boom,
        "conf.yaml": f"a: !!python/object/apply:os.system ['touch {mark}']\n",
        "run.sh": f"touch {mark}\nX=$(touch {mark})\n`touch {mark}`\n"
        f"python train.py $(touch {mark}) --config conf.yaml\n",
    }
    tree = kit.grow(tmp_path / "job", files)
    for command in (
        "python train.py",
        "bash run.sh",
        f"python train.py; touch {mark}",
        f"python $(touch {mark}) train.py",
    ):
        kit.read(tree, command)
    assert not mark.exists()


def test_files_that_are_not_files(tmp_path: Path, kit: SimpleNamespace) -> None:
    outside = kit.grow(tmp_path / "outside", {"secret.py": "epochs = 1\nimport torch\n"})
    tree = kit.grow(tmp_path / "job", {"ok.py": "import a, b, loop, far\n"})
    os.mkfifo(tree / "a.py")
    (tree / "b.py").symlink_to("/dev/zero")
    (tree / "loop.py").symlink_to("loop.py")
    (tree / "up").symlink_to(tree)
    (tree / "far.py").symlink_to(outside / "secret.py")
    (tree / "dir.py").mkdir()
    started = time.monotonic()
    for entry in ("ok.py", "a.py", "b.py", "loop.py", "far.py", "dir.py", "up/up/up/ok.py", "../outside/secret.py"):
        facts = kit.read(tree, f"python {entry}")
        assert facts.value("framework") in (None, "none"), entry
    assert time.monotonic() - started < SECONDS_MAX


def test_a_file_above_the_limit_is_left_out_and_said(tmp_path: Path, kit: SimpleNamespace) -> None:
    tree = kit.grow(tmp_path, {"big.py": "import torch\n" + "x = 1\n" * 300_000})
    facts = kit.read(tree, "python big.py")
    assert any("too large" in warning for warning in facts.warnings)


HOSTILE_SOURCES = {
    "deep parentheses": "x = " + "(" * 5000 + "1" + ")" * 5000,
    "deep unary": "x = " + "-" * 20_000 + "1",
    "long sum": "x = " + "+".join(["1"] * 50_000),
    "deep attribute": "x = a" + ".b" * 20_000,
    "deep call": "x = f" + "()" * 5000,
    "deep list": "x = " + "[" * 150 + "]" * 150,
    "nested ifs": "\n".join(" " * i + "if y:" for i in range(95)) + "\n" + " " * 96 + "x = 1",
    "many undecided ifs": "\n".join(f"if unknown{i}: x{i} = 1\nelse: x{i} = 2" for i in range(3000)),
    "power": "x = 10 ** 10 ** 10\ny = 2 ** 1000000\nz = 1 << 10 ** 9",
    "doubling text": "x = 'a' * 10 ** 9\n" + "y = 'ab'\n" + "y = y + y\n" * 60,
    "doubling list": "x = [0]\n" + "x = x + x\n" * 60 + "z = [0] * 10 ** 9",
    "replace": "x = 'a' * 9000\n" + "x = x.replace('a', x)\n" * 10,
    "wide format": "x = '%999999999d' % 1\ny = '{:>999999999}'.format(1)\nz = f'{1:>999999999}'",
    "huge range": "for i in range(10 ** 30): pass\nx = list(range(10 ** 18))\ny = [i for i in range(10 ** 12)]",
    "infinite": "x = float('inf')\nfor i in range(int(1e400)): pass\ny = int(float('nan'))\nwhile True: pass",
    "recursion": "def f(n): return f(n + 1) + f(n + 2)\nf(0)\nclass A(A): pass\nA().x()",
    "fan out": "\n".join(f"def f{i}(): f{i + 1}(); f{i + 1}(); f{i + 1}()" for i in range(40))
    + "\ndef f40(): pass\nf0()",
    "self import": "import entry\nfrom entry import *\nfrom . import entry",
    "mutual bases": "class A: pass\nclass B(A): pass\nA = type('A', (B,), {})\nB().nothing()",
    "python 2": "print 'hello', 1\nprint\nexec 'x'\nraise ValueError, 'x'\nx = 0777L\nif 1 <> 2: pass\n",
    "nul": "import torch\x00\nx = 1",
    "surrogates": "x = '\\ud800'\nprint(x)",
    "control names": "x = '\\x1b[31m'\nimport torch",
    "self in list": "x = []\nx.append(x)\nprint(x, str(x))\nd = {}\nd['d'] = d\nfor k, v in d.items(): v.update(d)",
    "unpack": "a, *b = c = d\n(a, b), [c, d] = x\nfor a[0], b.c in e: pass",
    "generators": "def g():\n  yield from g()\n  return (yield)\nx = [*g()]\n"
    "async def h():\n  async for i in g(): await i",
    "argparse": "import argparse\np = argparse.ArgumentParser(parents=[1])\np.add_argument()\np.add_argument('')\n"
    "p.add_argument('--x', nargs=-5, type=p, default=p)\na = p.parse_args()\nfor i in range(a.x): pass",
    "match": "match x:\n  case 1: pass\n  case {'a': b}: pass\n  case [*_]: pass\n  case _: y = 1",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_SOURCES)
def test_hostile_source(tmp_path: Path, kit: SimpleNamespace, name: str) -> None:
    tree = kit.grow(tmp_path, {})
    (tree / "entry.py").write_bytes(HOSTILE_SOURCES[name].encode("utf-8", "surrogatepass"))
    started = time.monotonic()
    kit.read(tree, "python entry.py --x 3")
    assert time.monotonic() - started < SECONDS_MAX


def test_configuration_bombs(tmp_path: Path, kit: SimpleNamespace) -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 300))
    code = (
        "import yaml, json\nc = yaml.safe_load(open('laughs.yaml'))\nd = json.load(open('deep.json'))\nx = c['a299']\n"
    )
    tree = kit.grow(tmp_path, {"e.py": code, "laughs.yaml": laughs, "deep.json": "[" * 100_000})
    started = time.monotonic()
    kit.read(tree, "python e.py")
    kit.read(tree, "accelerate launch --config_file laughs.yaml e.py")
    kit.read(tree, "deepspeed e.py --deepspeed_config deep.json")
    assert time.monotonic() - started < SECONDS_MAX


def test_short_alias_bomb(tmp_path: Path, kit: SimpleNamespace) -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 12)
    )
    tree = kit.grow(tmp_path, {"e.py": "import yaml\nc = yaml.safe_load(open('l.yaml'))\n", "l.yaml": laughs})
    started = time.monotonic()
    kit.read(tree, "python e.py")
    assert time.monotonic() - started < SECONDS_MAX


def test_scripts_that_call_themselves(tmp_path: Path, kit: SimpleNamespace) -> None:
    files = {
        "a.sh": "bash a.sh\nsource a.sh\n. ./b.sh\n",
        "b.sh": "f() { f; }\nf\nbash a.sh\nwhile true; do bash b.sh; done\n",
        "c.sh": "X=a\n" + "X=$X$X\n" * 80 + "python $X.py\n",
        "d.sh": "${" * 500 + "((((" * 500 + '"' + "`" + "'",
        "e.sh": "if " * 500 + "case x in " * 100 + "do done fi esac ;; ) }",
        "g.sh": "cat <<EOF > x\n" + "no end\n" * 100,
    }
    tree = kit.grow(tmp_path, files)
    started = time.monotonic()
    for name in files:
        kit.read(tree, f"bash {name}")
        kit.read(tree, f"sbatch {name}")
    assert time.monotonic() - started < SECONDS_MAX


def test_missing_and_unreadable_folders(tmp_path: Path, kit: SimpleNamespace) -> None:
    assert kit.read(tmp_path / "missing", "python x.py").value("epochs") is None
    assert kit.read(tmp_path / "missing", "").facts == {}
    assert kit.read(tmp_path, "'unclosed \"quote").warnings


SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
_WORDS = st.sampled_from(
    ["python", "torchrun", "accelerate", "launch", "deepspeed", "srun", "sbatch", "bash", "-c", "-m", "e.py", "e.sh",
     "--x", "=",
     "--nproc_per_node", "-N", "4", "$X", "${X:-", "$(", "))", "((", "'", '"', "\\", ";", "|", "&&", "<<EOF", "\n",
     "env", "A=1",
     "mpirun", "-np", "[", "if", "then", "fi", "for", "in", "do", "done", "{", "}", "#SBATCH", "--config",
     "trainer=gpu"]
)  # fmt: skip


@SETTINGS
@given(command=st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=25).map(" ".join)))
def test_any_command_is_survived(tmp_path: Path, kit: SimpleNamespace, command: str) -> None:
    tree = kit.grow(tmp_path, {"e.py": "import torch\n", "e.sh": "python e.py $1\n"})
    facts = kit.read(tree, command)
    assert all(0.0 <= fact.confidence <= 1.0 for fact in facts.facts.values())


_PIECES = st.sampled_from(
    ["import torch", "from torch import *", "x = 1", "x += y", "x = x + [1]", "for i in x:", "while x > 2:", "if x:",
     "else:",
     "    x = i", "    break", "    continue", "    return x", "def f(x, *a, k=1, **kw):", "class A(B):",
     "    def g(self):",
     "        self.x = x", "f(x, k=2, *y, **z)", "A().g()", "del x", "try:", "except E as e:", "finally:", "    pass",
     "with x as y:", "x = [i for i in y if i]", "x = {k: v for k, v in z.items()}", "x = lambda a: a", "global x",
     "x[1] = y",
     "x.y = z", "raise x", "assert x", "x: int = 3", "print(f'{x!r:>{y}}')", "loss.backward()", "opt.step()",
     "opt = torch.optim.SGD(m.parameters(), lr=x)", "@f", "    yield x", "x = y if z else w", "import argparse",
     "p = argparse.ArgumentParser()", "p.add_argument('--x', type=int, default=x)", "x = p.parse_args()", "x = x.x"]
)  # fmt: skip


@SETTINGS
@given(source=st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=40).map("\n".join)))
def test_any_source_is_survived(tmp_path: Path, kit: SimpleNamespace, source: str) -> None:
    (tmp_path / "e.py").write_bytes(source.encode("utf-8", "surrogatepass"))
    kit.read(tmp_path, "python e.py --x 7 y")


@SETTINGS
@given(
    default=st.integers(1, 10_000),
    given_value=st.integers(1, 10_000),
    style=st.sampled_from(["--epochs {}", "--epochs={}", "-e {}", "-e{}", "--epo {}"]),
)
def test_the_launch_command_beats_the_default(
    tmp_path: Path, kit: SimpleNamespace, default: int, given_value: int, style: str
) -> None:
    code = kit.PLAIN["train.py"].replace(
        '"--epochs", type=int, default=7', f'"-e", "--epochs", type=int, default={default}'
    )
    tree = kit.grow(tmp_path, {**kit.PLAIN, "train.py": code})
    assert kit.read(tree, "python train.py").value("epochs") == default
    assert kit.read(tree, "python train.py " + style.format(given_value)).value("epochs") == given_value


def test_fingerprint_ignores_paths_comments_and_seeds(tmp_path: Path, kit: SimpleNamespace) -> None:
    one = kit.grow(tmp_path / "one", kit.PLAIN)
    commented = {name: f"# another comment\n\n{text}" for name, text in kit.PLAIN.items()}
    two = kit.grow(tmp_path / "elsewhere" / "two", commented)
    first = kit.read(one, "python train.py --epochs 3 --seed 1 --output-dir /a/b").fingerprint
    assert first == kit.read(two, "python train.py --epochs 3 --seed 77 --output-dir /c/d").fingerprint
    assert first != kit.read(one, "python train.py --epochs 4 --seed 1 --output-dir /a/b").fingerprint
    assert first and kit.read(one, "python train.py --epochs 3 --seed 1 --output-dir /a/b").fingerprint == first
