"""The `schedmate` command: puts the commands together and turns errors into one line."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from prompts.errors import UserError
from schedmate.config import secrets_among, use_sources
from schedmate.console import visible

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: The commands in the order of the help, each the module of that name in `schedmate.commands`.
COMMANDS = (
    "demo", "simulate", "compare", "sweep", "trace", "workload", "analyze", "predict", "train", "evaluate", "diagnose",
    "failures", "signatures", "progress", "batch", "serve", "history", "llm", "config", "version",
)  # fmt: skip
#: Options before the command that take the next word.
_WITH_VALUE = ("--config", "--set")


def _show_version(wanted: bool) -> None:
    if wanted:
        from schedmate.commands.version import version

        version()
        raise typer.Exit


def _root(
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Configuration file (TOML).", metavar="FILE")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set one value, for example --set service.port=9000.", metavar="KEY=VALUE"),
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Reads what lies unused next to every GPU job and schedules with it.

    Add --debug to any command to see the traceback of an error.
    """
    use_sources(config_file, settings or [])
    for name in secrets_among(settings or []):
        variable = "SCHEDMATE_" + name.replace(".", "_").upper()
        _complain(f"warning: --set {name} shows its value to all users of this machine (ps); set {variable} instead")


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with some of the commands, or all."""
    app = typer.Typer(
        name="schedmate",
        help="Reads what lies unused next to every GPU job and schedules with it.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        import_module(f"schedmate.commands.{name}").register(app)
    return app


def _for(words: Sequence[str]) -> typer.Typer:
    """The command line with all that these words may ask for: putting all commands together takes longer than reading
    a small log."""
    asked = _asked(words)
    if asked in COMMANDS:
        return command_line((asked,))
    app = command_line()
    _add_plugins(app)
    return app


def _asked(words: Sequence[str]) -> str:
    """The command; empty where something else comes before it."""
    left = iter(words)
    for word in left:
        if word in _WITH_VALUE:
            next(left, "")
        elif not word.startswith(tuple(f"{option}=" for option in _WITH_VALUE)):
            return "" if word.startswith("-") else word
    return ""


def _add_plugins(app: typer.Typer) -> None:
    from schedmate.ports import CLI, registered

    for name, point in registered(CLI).items():
        try:
            if name in COMMANDS:
                raise ValueError("there is a command of this name")
            found = point.load()
            if not isinstance(found, typer.Typer):
                raise TypeError("it is no typer.Typer")
        except Exception as error:  # noqa: BLE001 - somebody else's code: it does not take the other commands with it
            told = f"{type(error).__name__}: {error}"
            _complain(f"warning: command {name!r} is left out, as {point.value} can not be used: {told}")
        else:
            app.add_typer(found, name=name)


def run(argv: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the thing asked about is bad, 2 usage or unreadable input."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        command = typer.main.get_command(_for(words))
        code = command.main(args=words, prog_name="schedmate", standalone_mode=False)
        sys.stdout.flush()
        raise SystemExit(code if isinstance(code, int) else 0)
    except (typer.Abort, KeyboardInterrupt):
        _complain("interrupted")
        raise SystemExit(130) from None
    except TyperException as error:
        _refuse(error)
        raise SystemExit(2) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except UserError as error:
        if debug:
            raise
        _complain(str(error))
        raise SystemExit(2) from None
    except OSError as error:
        _drop_unwritten()
        if debug:
            raise
        place = f"{error.filename}: " if error.filename is not None else "output: " if error.errno in _NO_ROOM else ""
        hint = "; make room for it, or send it elsewhere" if error.errno in _NO_ROOM else ""
        _complain(f"{place}{error.strerror or error}{hint}; pass --debug for the traceback")
        raise SystemExit(2) from None
    except (MemoryError, RecursionError) as error:
        if debug:
            raise
        _complain(f"{type(error).__name__}: {error}; pass --debug for the traceback")
        raise SystemExit(2) from None
    except Exception as error:
        if debug:
            raise
        _complain(f"internal error, please report it: {type(error).__name__}: {error}; pass --debug for the traceback")
        raise SystemExit(2) from None


def _drop_unwritten() -> None:
    """What could not be written to stdout would be tried again at the very end, and complained about there."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(error: TyperException) -> None:
    """A usage error on one line, with the command whose help says more; a group called alone shows its help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)  # noqa: T201
        return
    option = getattr(error, "option_name", None)
    if option is not None and context is not None and context.parent is not None:
        whole = context.find_root()
        if any(option in each.opts for each in whole.command.params):
            below = context.command_path.removeprefix(whole.command_path).strip()
            _complain(f"{option} goes before the command: `{whole.command_path} {option} ... {below} ...`")
            return
    _complain(f"{error.format_message().rstrip('.')}; see `{context.command_path if context else 'schedmate'} --help`")


def _complain(text: str) -> None:
    line = visible(" ".join(text.split()))
    print(f"schedmate: {line}", file=sys.stderr)  # noqa: T201
