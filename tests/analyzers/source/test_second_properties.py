"""Whatever stands in a file or in an answer: nothing raises, no comment is shown, no number is made up."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.source.opened import Text, as_text
from analyzers.source.second import checks
from analyzers.source.second.checks import backing, checked_value
from analyzers.source.second.lines import Line, code_lines, command_lines, prose_lines
from analyzers.source.second.questions import questions
from prompts.outgoing import visible

ENDINGS = (
    "py",
    "yaml",
    "yml",
    "json",
    "toml",
    "sh",
    "ini",
    "cpp",
    "cu",
    "jl",
    "lua",
    "md",
    "m",
    "f90",
    "ipynb",
    "txt",
    "",
)
MARK = "ZQXJ"
#: What opens, closes and escapes in the languages that jobs are written in.
MARKS = """# ' " \\ /* */ // -- --[[ ]] #= =# % { } ( ) [ ] : = , | > f' <<EOF EOF"""
SPACED = [
    "\n",
    "\n",
    "\n    ",
    " ",
    "- ",
    ": 0.1",
    " 10 ",
    "def f():",
    "#SBATCH --gpus=4",
    "--epochs 3",
    "note: ",
    "echo ",
]
ODD = ['"""', "'''", "\t", "\x0c", "\r", "\x00", "é", "٣", "\u2028", "\ud800"]
WORDS = "epochs lr batch_size =3 1e5 -1 x password="
PIECES = st.sampled_from([*MARKS.split(), *WORDS.split(), *SPACED, *ODD])
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=40).map("".join)


@given(TEXTS, st.sampled_from(ENDINGS))
def test_every_line_stands_in_its_file(content: str, ending: str) -> None:
    text = as_text(f"a.{ending}" if ending else "a", content)
    rows = dict(text.lines)
    for line in [*code_lines(text), *prose_lines([text, Text("README.md", text.lines, "md")])]:
        assert line.text == line.text.strip() and line.text and "\n" not in line.text and len(line.text) <= 240
        if "<redacted>" not in line.text:
            assert line.text in visible(rows[line.number]), (line, rows[line.number])


@given(TEXTS)
def test_a_command_is_shown_as_it_is(command: str) -> None:
    for line in command_lines(command):
        assert line.text and (line.text in visible(command) or "<redacted>" in line.text)


COMMENTS = {
    "py": [
        "x = 1  # {}",
        "# {}", "def f():\n    '''{}'''\n    return 1", '"""{}"""', 't = """\n{}\n"""', "x = [  # {}\n 1]",
        "def g():\n    '{}'", "y = f'''\n{}{{x}}\n{}'''", "if x:\n    # {}\n    pass", "z = 1;  # '''{}",
        "# \"\"\" {}",
    ],
    "cpp": ["// {}", "int a; // {}", "/* {} */", "/*\n {}\n*/ int b;", "/* // {}\n {} */"],
    "sh": ["# {}", "ls # {}"],
    "yaml": ["# {}", "a: 1 # {}"],
    "toml": ["# {}", "a = 1 # {}"],
    "ini": ["; {}", "# {}", "a = 1 ; {}"],
    "jl": ["# {}", "#= {} =#", "#=\n{}\n=#"],
    "lua": ["-- {}", "--[[\n{}\n]]"],
    "json": ['"_comment": "{}",', "// {}"],
}  # fmt: skip
CODE = {"py": ["x = 2", "for i in range(3):\n    pass", "call(1, 'a')", "s = 'it is # none'"]}


@given(st.data())
def test_no_comment_is_shown(data: st.DataObject) -> None:
    ending = data.draw(st.sampled_from(sorted(COMMENTS)))
    rows = st.sampled_from([*COMMENTS[ending], *CODE.get(ending, [])])
    said = data.draw(
        st.sampled_from([f"{MARK} epochs = 1", f"{MARK}", f"say {MARK}: epochs=1", f"{MARK}\\", f"it's {MARK}"])
    )
    broken = data.draw(st.booleans()) and ending == "py"
    chosen = [
        row.replace("{}", said).replace("{{", "{").replace("}}", "}") for row in data.draw(st.lists(rows, max_size=8))
    ]
    if ending == "py" and ("'" in said or said.endswith("\\")):
        chosen = [row for row in chosen if "'" not in row.replace(said, "") and '"' not in row.replace(said, "")]
    content = "\n".join([*chosen, "last = (" if broken else "last"])
    shown = list(code_lines(as_text(f"a.{ending}", content)))
    assert not any(MARK in line.text for line in shown), (content, shown)


LINES = st.builds(
    Line, st.sampled_from(["a.py", "launch", "b.yaml", "c.cpp"]), st.integers(1, 9), TEXTS, st.booleans(), st.booleans()
)


@given(st.sampled_from(sorted(questions())), TEXTS, st.integers(-3, 9), st.lists(LINES, max_size=5))
def test_nothing_that_is_said_raises_or_is_made_up(name: str, said: str, number: int, lines: list[Line]) -> None:
    question = questions()[name]
    value = checked_value(question, said)
    if value is None:
        return
    problem, line = backing(question, value, number, lines)
    assert (problem == "") is (line is not None)
    if line is None:
        return
    assert line in lines and not (line.prose and not question.prose)
    if question.kind in ("count", "number"):
        assert isinstance(value, int | float) and math.isfinite(value) and value > 0
        assert any(c.isdigit() for c in line.text)


@pytest.mark.parametrize(
    "number",
    ["1e309", "-1e309", "9" * 5000, "0" * 400 + "1", "1e-400", "NaN", "nan", "inf", "-5", "٣", "１０", "½", "²", "0x10",
     "1__0_", "1,00", "--5", "5e", "e5", "5.5.5", "'5", "[[5", "5]]", "True", "None", "5 apples", "1" + "0" * 60, "0.0",
     "-0", "+", "."],
)  # fmt: skip
@pytest.mark.parametrize("name", ["epochs", "learning_rate"])
def test_hostile_numbers_are_none(name: str, number: str) -> None:
    question = questions()[name]
    assert checked_value(question, number) in (None, 5, 1, 10.0, 100)
    key = {"epochs": "epochs", "learning_rate": "lr"}[name]
    for row in (
        f"{key}={number}",
        f"{key}: {number}",
        f'{{"{key}": {number}}}',
        f"--{key} {number}",
        f"{key}=int('{number}')",
    ):
        found = checks.given(question, Line("a.yaml", 1, row))
        assert all(0 < value < 1e40 and math.isfinite(value) for value in found), (row, found)
        if number in ("٣", "１０", "9" * 5000, "1e309", "NaN", "inf", "½", "²", "1" + "0" * 60, "1e-400"):
            assert found == [], (row, found)


UNITS = [
    "'",
    '"',
    "epochs=",
    "1,",
    "1_",
    "a ",
    "- ",
    "\\",
    "/*",
    "--",
    "#",
    "(",
    "note: ",
    "x: |\n ",
    "1" * 50,
    "a b: ",
]


@pytest.mark.parametrize("ending", ["py", "yaml", "sh", "cpp"])
@pytest.mark.parametrize("unit", UNITS)
def test_long_lines_take_time_in_line_with_their_length(unit: str, ending: str) -> None:
    def seconds(size: int) -> float:
        best = float("inf")
        for _ in range(2):
            text, start = as_text(f"a.{ending}", unit * (size // len(unit))), time.process_time()
            for line in list(code_lines(text))[:20]:
                for question in questions().values():
                    backing(question, 5 if question.kind in ("count", "number") else "five", 1, [line])
            best = min(best, time.process_time() - start)
        return best

    small, large = seconds(5_000), seconds(40_000)
    assert large < max(0.5, 24 * small), (small, large)
