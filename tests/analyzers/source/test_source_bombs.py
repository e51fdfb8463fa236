"""Small inputs that ask for much time or memory. Each of these once took minutes or gigabytes, or could.

What is left out for it is said in the warnings; the bound on time is generous, since without the limits most of these
would not end within an hour.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source.limits import CPU_S_MAX, IDIOMS_CPU_S_MAX
from analyzers.source.program.parsing import marks, modernised

#: For one reading in processor time; one file's parsing comes on top of the deadlines, and machines differ.
SECONDS_MAX = 3 * (CPU_S_MAX + IDIOMS_CPU_S_MAX)

Files = dict[str, "str | bytes"]
YAML = "import yaml\nc = yaml.safe_load(open('c.yaml'))\nprint(f\"{c}\", str(c['a']))\nx = c['a'] * 2\n"
LOOP = "import torch\nopt = torch.optim.SGD([], lr=1)\nfor e in range(3):\n    opt.step()\n"


def dag_of_bases() -> str:
    levels = "".join(f"class A{i}({', '.join([f'A{i - 1}'] * 8)}): pass\n" for i in range(1, 14))
    return f"class A0: pass\n{levels}A13().nothing\nA13.x\nfrom dataclasses import dataclass\ndataclass(A13)()\n"


#: name -> (files, command, a part of the warning that tells what was left out; empty where nothing has to be)
BOMBS: dict[str, tuple[Files, str, str]] = {
    "blank lines and a syntax error": ({"e.py": "print 'x'\n" + "\n" * 900_000}, "python e.py", ""),
    "blanks in a print statement": ({"e.py": "print x" + " " * 900_000 + "y\n"}, "python e.py", "can not be parsed"),
    "commas after except": ({"e.py": "except " + "a, " * 140_000}, "python e.py", "can not be parsed"),
    "parts of an f-string": ({"e.py": "x = f'" + "{a}" * 240_000 + "'"}, "python e.py", "too dense"),
    "a file of commas": ({"e.py": "x = (" + "a," * 490_000 + ")"}, "python e.py", "too dense"),
    "many dense files": (
        {
            "e.py": "".join(f"import m{i}\n" for i in range(4)),
            **{f"m{i}.py": "def f():\n" + " x = 1\n" * 40_000 for i in range(4)},
        },
        "python e.py",
        "there is too much source",
    ),
    "a million lines": ({"e.py": "x=1\n" * 249_000}, "python e.py", "too dense"),
    "ten thousand elifs": (
        {"e.py": "if a: pass\n" + "".join(f"elif a == {i}: x = {i}\n" for i in range(10_000))},
        "python e.py",
        "can not be parsed",
    ),
    "classes of doubled bases": ({"e.py": dag_of_bases()}, "python e.py", ""),
    "an import of many parts": ({"e.py": "import " + "a." * 70_000 + "a\n"}, "python e.py", "too dense"),
    "an import of many names": (
        {"e.py": "import " + ",".join(f"a{i}" for i in range(70_000))},
        "python e.py",
        "too large to be read to its end",
    ),
    "doubled arguments": (
        {"e.py": "def f(*a): return a\nx = (1,)\n" + "x = f(*x, *x)\n" * 40},
        "python e.py",
        "more arguments than are followed",
    ),
    "doubled lists": (
        {"e.py": "x = [1]\n" + "x.extend(x)\n" * 60 + "x += x\n" * 60 + "x = [*x, *x]\n" * 60}, "python e.py", ""
    ),
    "many ways out of a function": (
        {"e.py": "def f():\n" + "".join(f"  if u{i}: return {i}\n" for i in range(20_000)) + "x = f()\ny = f()\n"},
        "python e.py",
        "",
    ),
    "a separator of nothing": ({"e.py": "x = 'a' * 9999\n" + "y = x.join([''] * 9999)\n" * 300}, "python e.py", ""),
    "maps that share maps": (
        {
            "e.py": "d = {'a': 1}\n" + "d = {'a': d, 'b': d}\n" * 60 + "from easydict import EasyDict\n"
            "EasyDict(d).a.b\n"
        },
        "python e.py",
        "too large to be read to its end",
    ),
    "merged maps that share maps": (
        {
            "e.py": "d = {'a': 1}\n" + "d = {'a': d, 'b': d}\n" * 60 + "from omegaconf import OmegaConf\n"
            "OmegaConf.merge(d, d).a.b\n"
        },
        "python e.py",
        "",
    ),
    "a huge number": (
        {"e.py": "x = 0x" + "f" * 400_000 + "\nprint(f'{x}', str(x), '%d' % x)\ny = x * x\nfor i in range(x): pass\n"},
        "python e.py",
        "",
    ),
    "constant folding": (
        {
            "e.py": "a = 10 ** 10 ** 10\nb = 'a' * 10 ** 12\nc = list(range(10 ** 12))\nd = 1 << 10 ** 9\n"
            "e = sum(range(10 ** 12))\nf = b'a' * 10 ** 12\ng = [0] * 10 ** 12\nh = '{:>1000000000}'.format(1)\n"
            "i = bytes(10 ** 12)\nj = int('9' * 10 ** 6)\nk = 'a'.ljust(10 ** 12)\nl = pow(10, 10 ** 9)\n"
        },
        "python e.py",
        "",
    ),
    "digits in YAML": ({"e.py": YAML, "c.yaml": "a: " + "1" * 290_000 + "x\n"}, "python e.py", ""),
    "base sixty in YAML": ({"e.py": YAML, "c.yaml": "a: 1" + ":1" * 140_000 + "\n"}, "python e.py", ""),
    "a huge number in YAML": ({"e.py": YAML, "c.yaml": "a: 0x" + "f" * 200_000 + "\n"}, "python e.py", ""),
    "merged anchors in YAML": (
        {
            "e.py": YAML,
            "c.yaml": "a: &a0 {a: 1, b: 2}\n"
            + "".join(f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 24)),
        },
        "python e.py",
        "",
    ),
    "an anchor in itself": ({"e.py": YAML, "c.yaml": "a: &a [*a, *a]\n"}, "python e.py", ""),
    "large YAML": (
        {"e.py": YAML, "c.yaml": "".join(f"k{i}: {{a: 1, b: [1,2]}}\n" for i in range(11_000))},
        "python e.py",
        "c.yaml: can not be read as a configuration, or is too large",
    ),
    "many YAML files": (
        {
            "e.py": "import yaml\n" + "".join(f"c{i} = yaml.safe_load(open('c{i}.yaml'))\n" for i in range(40)),
            **{f"c{i}.yaml": f"# {i}\n" + "".join(f"k{j}: [1, 2]\n" for j in range(4000)) for i in range(40)},
        },
        "python e.py",
        "too large to be read to its end",
    ),
    "deep YAML": ({"e.py": YAML, "c.yaml": "[" * 290_000}, "python e.py", "c.yaml: can not be read"),
    "deep JSON": (
        {"e.py": "import json\nc = json.load(open('c.json'))\n", "c.json": "[" * 100_000 + "]" * 100_000},
        "python e.py",
        "c.json: can not be read",
    ),
    "a dotted key in TOML": (
        {"e.py": "import tomllib\nc = tomllib.load(open('c.toml', 'rb'))\n", "c.toml": "a." * 140_000 + "a=1"},
        "python e.py",
        "c.toml: can not be read",
    ),
    "a notebook in one line": (
        {"n.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": [f"x{i}=1\n" for i in range(25_000)]}]})},
        "jupyter nbconvert --execute n.ipynb",
        "",
    ),
    "a notebook of outputs": (
        {"n.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": LOOP, "outputs": ["x" * 2_000_000]}]})},
        "jupyter nbconvert --execute n.ipynb",
        "too large to read",
    ),
    "nested defaults in a shell": (
        {"r.sh": "X=" + "".join(f"${{a{i}:-" for i in range(200)) + "x" + "}" * 200 + "\npython $X.py\n"},
        "bash r.sh",
        "",
    ),
    "a long word in a shell": ({"r.sh": "python '" + "a" * 190_000 + "'\n"}, "bash r.sh", "longer than is followed"),
    "doubled words in a shell": (
        {"r.sh": "X='a b c d '\n" + 'X="$X$X"\n' * 40 + "echo $X $X $X $X\n" * 4000}, "bash r.sh", "too much to follow"
    ),
    "doubled arrays in a shell": ({"r.sh": "X=(a b)\n" + "X=(${X[@]} ${X[@]})\n" * 40}, "bash r.sh", "longer than"),
    "grown arrays in a shell": ({"r.sh": "X=(a b)\n" + 'X+=("${X[@]}")\n' * 60 + "echo ${X[@]}\n"}, "bash r.sh", ""),
    "stars in a shell": (
        {"r.sh": "X=" + "a" * 3000 + "\ncase $X in " + "*a" * 18 + "*b) python b.py;; esac\n[[ $X == *a*a*a*a*b ]]\n"},
        "bash r.sh",
        "",
    ),
    "brackets in a shell": ({"r.sh": "(" * 190_000}, "bash r.sh", "too deeply nested"),
    "a long script": ({"r.sh": "# x\n" * 200_000 + "python e.py\n"}, "bash r.sh", "only the first"),
    "a long command": ({"e.py": LOOP}, "python e.py " + "--a b " * 12_000, "longer than is followed"),
    "many settings before a command": ({"e.py": LOOP}, "A=b " * 40_000 + "python e.py", ""),
    "binaries called like sources": (
        {"e.py": zlib.compress(b"0" * 10**8), "c.yaml": b"\0\1\2" * 1000}, "python e.py", "e.py: is not text"
    ),
    "a codec that unpacks": ({"e.py": b"# coding: zlib\n\xff" + zlib.compress(b"x" * 10**8)}, "python e.py", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bomb(tmp_path: Path, kit: SimpleNamespace, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files, command, told = BOMBS[name]
    if told.startswith("too "):  # ended by the deadline: no need to wait for all of it
        monkeypatch.setattr("analyzers.source.limits.Deadline.__init__.__defaults__", (CPU_S_MAX / 4,))
    if told.startswith("there is too much"):  # ended by the amount, on a busy machine too
        monkeypatch.setattr("analyzers.source.limits.Deadline.__init__.__defaults__", (CPU_S_MAX * 2,))
    for file, text in files.items():
        (tmp_path / file).write_bytes(text.encode() if isinstance(text, str) else text)
    before = time.thread_time()
    facts = kit.read(tmp_path, command)
    assert time.thread_time() - before < SECONDS_MAX
    assert not told or any(told in warning for warning in facts.warnings), facts.warnings
    assert all(len(warning) < 400 and warning.isprintable() for warning in facts.warnings)


#: Programs that put large values together; without a price on size each would take gigabytes.
GREEDY = {
    "slices": "x = [0] * 9999\nk = []\n" + "k.append(x[:])\n" * 30_000,
    "sums": "x = [0] * 5000\n" + "".join(f"y{i} = x + x\n" for i in range(30_000)),
    "dicts": "x = {}\n" + "".join(f"x = {{**x, 'k{i}': {i}}}\ny{i} = x\n" for i in range(12_000)),
    "texts": "x = 'a' * 9990\n" + "".join(f"y{i} = x + '{i}'\nz{i} = f'{{x}}'\n" for i in range(20_000)),
    "names": "x = (" + "a," * 149_000 + ")",
    "statements": "x=1\n" * 74_000,
}

# Not ru_maxrss: that of a fresh process counts from what the one had that started it, here a worker of the test run.
MEASURE = """
import sys
from pathlib import Path
from analyzers.source import analyze
from analyzers.types import Submission
for name in sys.argv[2:]:
    facts = analyze(Submission(f"python {name}.py", Path(sys.argv[1])))
    assert not [w for w in facts.warnings if "internal error" in w], facts.warnings
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {f"{name}.py": text for name, text in GREEDY.items()})
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path), *GREEDY], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 500, "MiB"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print", "print()"),
        ("  print 'a', b", "  print('a', b)"),
        ("print 'a',  ", "print('a')"),
        ("print >>sys.stderr, 'a'", "print('a')"),
        ("print('a')", "print('a')"),
        ("print ('a')", "print ('a')"),
        ("printer x", "printer x"),
        ("print = 3", "print = 3"),
        ("except (A, B), e:", "except (A, B) as e:"),
        ("except A, e :", "except A as e:"),
        ("except (A, B):", "except (A, B):"),
        ("except A as e:", "except A as e:"),
        ("raise A, 'x'", "raise A( 'x')"),
        ("x = 0777L + 10l", "x = 0o777 + 10"),
        ("if a <> b: pass", "if a != b: pass"),
        ("x = ur'a'", "x = r'a'"),
    ],
)
def test_python_2_is_made_readable(old: str, new: str) -> None:
    assert modernised(old) == new
    assert modernised(f"x\n{old}\n\ny") == f"x\n{new}\n\ny"


def test_marks_are_what_a_tree_grows_by() -> None:
    assert marks("x = f(a, b)\n") == 5
    assert marks("word " * 100) == 0
