"""Check the fields of a job that a user gives, and make the new job of them."""

import ntpath
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from queuectl.config import MOST_RETRIES, MOST_SECONDS, NO_SHELL, SHELLS, Settings
from queuectl.errors import InvalidInput, brief
from queuectl.job import ANY, DEFAULT_QUEUE, HIGHEST_PRIORITY, LAST, Job, Need, NewJob, State
from queuectl.times import Millis, parse_duration, parse_time

LONGEST_ID = 100
LONGEST_LABEL = 200
LONGEST_COMMAND = 100_000
LONGEST_WINDOWS_DIRECTORY = 258
ID = r"[A-Za-z0-9_][A-Za-z0-9._-]*"


def parse(fields: Mapping[str, Any], settings: Settings, cwd: str, now: Millis) -> NewJob:
    """A new job from its fields; their names are those of the options and of the JSON keys."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        check = CHECKS.get(name) or unknown(name)
        if value is not None:
            values[name] = check(value)
    if "command" not in values:
        raise InvalidInput('No command. Write one, e.g. "echo hello"')
    if "run_at" in values and "delay" in values:
        raise InvalidInput("Both run_at and delay are given. Keep one of them")
    command = values["command"]
    listed = isinstance(command, list)
    run_at = values.get("run_at")
    if "delay" in values:
        run_at = now + round(values["delay"] * 1000)
    directory = os.path.abspath(os.path.join(cwd, values.get("cwd", "")))
    no_rerun = values.get("no_rerun", False)
    if no_rerun and values.get("max_retries"):
        raise InvalidInput("Both no_rerun and max_retries are given: what must not run twice is not retried. Keep one")
    shell = values.get("shell")
    if listed and shell not in (None, NO_SHELL):
        raise InvalidInput("shell is given, and several arguments run without one. Write the command as one line")
    if os.name == "nt":
        check_windows_directory(directory, NO_SHELL if listed else shell or settings.shell)
    elif shell == NO_SHELL and not listed:
        check_words(command)
    return NewJob(
        id=values.get("id"),
        command=command_line(command) if listed else command,
        argv=to_json(command) if listed else None,
        priority=values.get("priority", settings.priority),
        max_retries=0 if no_rerun else values.get("max_retries", settings.max_retries),
        timeout=values.get("timeout", settings.timeout),
        backoff_base=values.get("backoff_base", settings.backoff_base),
        run_at=run_at,
        cwd=directory,
        env=to_json(values["env"]) if values.get("env") else None,
        label=values.get("label"),
        unique_key=values.get("unique"),
        needs=needs(values),
        shell=shell,
        no_retry_on=values.get("no_retry_on"),
        jitter=values.get("jitter", 0),
        no_rerun=int(no_rerun),
        queue=values.get("queue", DEFAULT_QUEUE),
    )


def over(defaults: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with defaults for those that are not given.

    None counts as not given. Giving delay or run_at replaces the default of either.
    """
    if not defaults:
        return dict(fields)
    given = {name for name, value in fields.items() if value is not None}
    if given & {"delay", "run_at"}:
        given |= {"delay", "run_at"}
    return {**fields, **{name: value for name, value in defaults.items() if name not in given}}


def changes(job: Job, fields: Mapping[str, Any], cwd: str, now: Millis) -> dict[str, Any]:
    """The new values of a waiting job's columns that these fields change; a field cannot be removed."""
    fixed = {"id", "unique", "depends_on", "after_any", "after_failed"}.intersection(fields)
    if fixed:
        raise InvalidInput(f"{min(fixed)} cannot be changed. Cancel the job, and enqueue another")
    if not any(value is not None for value in fields.values()):
        raise InvalidInput("Nothing to change. Name what is to be different, e.g. --priority 9")
    retries = fields.get("max_retries")
    if type(retries) is int and 0 <= retries < job.attempts:
        had = "1 try" if job.attempts == 1 else f"{job.attempts} tries"
        raise InvalidInput(
            f"max_retries cannot be {retries}: job {job.id} has had {had}, and waits for another. Cancel it"
        )
    if isinstance(fields.get("env"), dict):
        fields = {**fields, "env": merged(job, fields["env"])}
    defaults = Settings(job.max_retries, job.backoff_base, timeout=job.timeout, priority=job.priority)
    wanted = parse({"command": job.command, "no_rerun": bool(job.no_rerun), **fields}, defaults, cwd, now)._asdict()
    columns = {"delay": "run_at"}
    given = [columns.get(name, name) for name, value in fields.items() if value is not None]
    given += ["max_retries"] if fields.get("no_rerun") else []
    found = {name: wanted[name] for name in given}
    return {**found, "argv": wanted["argv"]} if "command" in found else found


def merged(job: Job, env: Mapping[str, Any]) -> dict[str, Any]:
    """The job's own variables, updated with these; a variable whose new value is None is removed."""
    from json import loads

    both = {**(loads(job.env) if job.env else {}), **env}
    return {name: value for name, value in both.items() if value is not None}


def needs(values: Mapping[str, Any]) -> tuple[Need, ...]:
    """The dependencies of the new job, one for each job that it waits for."""
    wanted = {"after_failed": State.DEAD.value, "after_any": ANY, "depends_on": State.COMPLETED.value}
    for job_id in set(values.get("after_failed", ())).intersection(values.get("depends_on", ())):
        raise InvalidInput(
            f"Job {job_id} is to be completed and to be dead before this one: it cannot be both. Keep one"
        )
    found = {job_id: Need(job_id, wanted[name]) for name in wanted for job_id in values.get(name, ())}
    return tuple(found.values())


def unknown(name: str) -> Callable[[Any], Any]:
    from difflib import get_close_matches

    plain = str(name).lower().replace("-", "_")
    near = ["depends_on"] if plain == "after" else get_close_matches(plain, CHECKS, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(CHECKS)}"
    raise InvalidInput(f"Unknown key {name!r}. {hint}")


def checked_id(value: Any, name: str = "id") -> str:
    if not isinstance(value, str) or not re.fullmatch(ID, value) or len(value) > LONGEST_ID:
        raise InvalidInput(
            f"{name} cannot be {brief(value)}. It takes 1 to {LONGEST_ID} letters, digits, '.', '_' and '-', "
            "and begins with a letter, a digit or '_'"
        )
    return value


def checked_new_id(value: Any) -> str:
    if checked_id(value) == LAST:
        raise InvalidInput(f"id cannot be {LAST!r}: that is what the newest job is called. Choose another")
    return str(value)


def checked_ids(name: str) -> Callable[[Any], list[str]]:
    def check(value: Any) -> list[str]:
        given = [value] if isinstance(value, str) or hasattr(value, "seq") else value
        if not isinstance(given, (list, tuple)):
            raise InvalidInput(f"{name} cannot be {brief(value)}. It takes the id of a job, or a list of ids")
        return [checked_id(getattr(job_id, "id", job_id)) for job_id in given]

    return check


def short_text(name: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_LABEL or not value.isprintable():
            raise InvalidInput(f"{name} cannot be {brief(value)}. It takes 1 to {LONGEST_LABEL} letters on one line")
        return clean(name, value.strip())

    return check


def checked_command(value: Any) -> Any:
    value = [*value] if isinstance(value, tuple) else value
    if isinstance(value, list):
        if not value or not all(isinstance(part, str) for part in value) or not value[0].strip():
            raise InvalidInput("command as a list takes the program and its arguments, all of them text")
        for part in value:
            clean("command", part)
    elif not isinstance(value, str):
        raise InvalidInput(f"command cannot be {brief(value)}. It takes a line for the shell, or a list of arguments")
    elif not value.strip():
        raise InvalidInput('The command is blank. Write one, e.g. "echo hello"')
    else:
        clean("command", value)
    return value


def clean(name: str, text: str) -> str:
    """The text, if it holds no NUL, which no process can be given, is valid UTF-8 and is not too long."""
    if "\0" in text:
        raise InvalidInput(f"{name} holds a NUL byte, which no command can take. Remove it")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} is not valid UTF-8. Put it in a script and enqueue that") from None
    if size > LONGEST_COMMAND:
        raise InvalidInput(f"{name} is longer than {LONGEST_COMMAND:,} bytes. Put it in a script and enqueue that")
    return text


def whole_number(name: str, least: int, most: int, accepts: str) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise InvalidInput(f"{name} cannot be {brief(value)}. It takes {accepts}")
        return value

    return check


def checked_backoff_base(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1000:
        raise InvalidInput(f"backoff_base cannot be {brief(value)}. It takes a number from 0 to 1000")
    return float(value)


def checked_time(value: Any) -> Millis:
    value = value.isoformat() if type(value).__name__ == "datetime" else value
    if not isinstance(value, str):
        raise InvalidInput(f'run_at cannot be {brief(value)}. It takes a time such as "2027-01-31T02:00:00"')
    return parse_time(value)


def checked_delay(value: Any) -> float:
    value = value.total_seconds() if hasattr(value, "total_seconds") else value
    if type(value) in (int, float) or isinstance(value, str):
        return parse_duration(str(value))
    raise InvalidInput(f'delay cannot be {brief(value)}. It takes a duration such as 90, "10m" or "2h30m"')


def checked_cwd(value: Any) -> str:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"cwd cannot be {brief(value)}. It takes the path of a directory")
    return clean("cwd", value)


def check_windows_directory(path: str, shell: str) -> None:
    """Refuse a directory in which Windows cannot start a program, or this shell cannot run."""
    if len(path) > LONGEST_WINDOWS_DIRECTORY:
        raise InvalidInput(
            f"{brief(path)} is {len(path)} characters long, and Windows starts no program in a directory of more than "
            f"{LONGEST_WINDOWS_DIRECTORY}. Give it a short name with `subst X: DIRECTORY`, and use --cwd X:\\"
        )
    name = ntpath.basename(shell or os.environ.get("COMSPEC") or "cmd.exe").lower().removesuffix(".exe")
    if path.startswith("\\\\") and name == "cmd":
        share = ntpath.splitdrive(path)[0]
        raise InvalidInput(
            f"cmd.exe cannot run in {path}. Give the share a letter with `net use X: {share}` and use --cwd X:\\, "
            "or leave cmd.exe out with --shell powershell or --shell none"
        )


def check_words(line: str) -> None:
    from shlex import split

    try:
        split(line)
    except ValueError as error:
        raise InvalidInput(f"Without a shell the line cannot be split into words: {error}. Mend its quotes") from None


def checked_codes(value: Any) -> str:
    """Exit codes, given as a list, a number or text with commas; -9 means signal 9, and Windows codes have 32 bits."""
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    texts = [str(code).strip() for code in given]
    codes = [int(text) for text in texts if re.fullmatch(r"-?\d{1,10}", text, re.ASCII)]
    if not codes or len(codes) < len(texts) or not -(2**31) <= min(codes) <= max(codes) < 2**32:
        raise InvalidInput(f"no_retry_on cannot be {brief(value)}. It takes exit codes, e.g. 2,64")
    if os.name == "nt":  # -1 and 4294967295 are the same exit code
        codes = [code % 2**32 for code in codes]
    else:  # a run that signal n ended has exit code 128 + n
        codes = [128 - code if code < 0 else code for code in codes]
    return ",".join(dict.fromkeys(map(str, codes)))


def checked_jitter(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise InvalidInput(f"jitter cannot be {brief(value)}. It takes a number from 0 to 1: a part of the wait")
    return float(value)


def checked_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"no_rerun cannot be {brief(value)}. It takes true or false")
    return value


def checked_env(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise InvalidInput(f"env cannot be {brief(value)}. It takes names and values, all of them text")
    for name, text in value.items():
        if not name or "=" in name:
            raise InvalidInput(f"env holds the name {name!r}. A name is not empty and has no '=' in it")
        clean("env", name)
        clean("env", text)
    return value


def checked_shell(value: Any) -> str:
    if not isinstance(value, str) or value.lower() not in SHELLS:
        raise InvalidInput(f"shell cannot be {brief(value)}. It takes {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return value.lower()


CHECKS: dict[str, Callable[[Any], Any]] = {
    "id": checked_new_id,
    "command": checked_command,
    "priority": whole_number("priority", 1, HIGHEST_PRIORITY, "a whole number from 1 to 10"),
    "max_retries": whole_number("max_retries", 0, MOST_RETRIES, f"a whole number from 0 to {MOST_RETRIES}"),
    "timeout": whole_number("timeout", 0, MOST_SECONDS, f"whole seconds up to {MOST_SECONDS}, 0 for no limit"),
    "backoff_base": checked_backoff_base,
    "run_at": checked_time,
    "delay": checked_delay,
    "cwd": checked_cwd,
    "env": checked_env,
    "label": short_text("label"),
    "unique": short_text("unique"),
    "depends_on": checked_ids("depends_on"),
    "after_any": checked_ids("after_any"),
    "after_failed": checked_ids("after_failed"),
    "shell": checked_shell,
    "no_retry_on": checked_codes,
    "jitter": checked_jitter,
    "no_rerun": checked_flag,
    "queue": lambda value: checked_id(value, "queue"),
}


def command_line(argv: list[str]) -> str:
    """A list of arguments as a user would type it on this platform."""
    if os.name == "nt":
        from subprocess import list2cmdline

        return list2cmdline(argv)
    from shlex import join

    return join(argv)


def to_json(value: Any) -> str:
    from json import dumps

    return dumps(value)
