"""What a job is: its fields, its states, the checks on what a user hands in, and what a run makes of it."""

import ntpath
import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from queuectl.config import MOST_RETRIES, MOST_SECONDS, NO_SHELL, SHELLS, Settings
from queuectl.errors import InvalidInput, brief
from queuectl.times import Millis, parse_duration, parse_time

LONGEST_ID = 100
LONGEST_LABEL = 200
LAST = "last"  # what the newest job is called, wherever an id is asked for
ANY = "any"
DEFAULT_QUEUE = "default"
LONGEST_COMMAND = 100_000
MOST_LOST_IN_A_ROW = 3
HIGHEST_PRIORITY = 10
# What a run finds in its environment, and no other run may.
AFTER_VARIABLES = ("QUEUECTL_AFTER_ID", "QUEUECTL_AFTER_STATE", "QUEUECTL_AFTER_EXIT_CODE")
RUN_VARIABLES = ("QUEUECTL_RUN", "QUEUECTL_JOB_ID", *AFTER_VARIABLES)
LONGEST_WINDOWS_DIRECTORY = 258
ID = r"[A-Za-z0-9_][A-Za-z0-9._-]*"


class State(str, Enum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value

    @property
    def has_ended(self) -> bool:
        """For good: no worker takes such a job again by itself."""
        return self in (State.COMPLETED, State.DEAD, State.CANCELLED)


class Job(NamedTuple):
    """A row of `jobs`, its columns by their names; from `output` on what only some readers fetch."""

    seq: int
    id: str
    command: str
    argv: str | None
    state: State
    was: str | None
    priority: int
    max_retries: int
    timeout: int
    backoff_base: float
    attempts: int
    lost: int
    lease: int
    cwd: str
    environment: str | None
    env: str | None
    rank: int | None
    since_tick: int | None
    since_at: Millis | None
    started_tick: int | None
    due_at: Millis | None
    run_at: Millis | None
    created_at: Millis
    updated_at: Millis
    started_at: Millis | None
    finished_at: Millis | None
    duration_seconds: float | None
    worker: str | None
    exit_code: int | None
    error_message: str | None
    cancel_reason: str | None
    label: str | None
    unique_key: str | None
    waits_for: int
    dependents: int
    woken_by: int | None
    shell: str | None
    no_retry_on: str | None
    jitter: float
    no_rerun: int
    queue: str
    output: str | None = None
    stderr: str | None = None
    waiting_time: int = 0

    @property
    def waited_until(self) -> Millis | None:
        """When it no longer waited: at its start, or when it was cancelled without one."""
        ended_in_line = self.state is State.CANCELLED and self.cancel_reason is None
        return self.finished_at if ended_in_line else self.started_at

    @property
    def effective_priority(self) -> int:
        return self.priority + self.waiting_time

    @property
    def is_waiting(self) -> bool:
        return self.state in (State.PENDING, State.FAILED)


class Need(NamedTuple):
    """A job that another waits for, and how it must end for that: completed, dead, or any."""

    id: str
    wanted: str

    def is_met(self, state: State) -> bool:
        return state.has_ended if self.wanted == ANY else state.value == self.wanted


class NewJob(NamedTuple):
    """A job as it is handed in: checked, and not yet stored."""

    id: str | None
    command: str
    argv: str | None
    priority: int
    max_retries: int
    timeout: int
    backoff_base: float
    run_at: Millis | None
    cwd: str
    env: str | None
    label: str | None = None
    unique_key: str | None = None
    needs: tuple[Need, ...] = ()
    shell: str | None = None
    no_retry_on: str | None = None  # exit codes, with commas between them
    jitter: float = 0
    no_rerun: int = 0
    queue: str = DEFAULT_QUEUE


class Outcome(NamedTuple):
    """What came of one run. With no exit code the command never started, or was ended by us for `reason`."""

    exit_code: int | None
    duration_seconds: float
    output: str = ""
    stderr: str = ""
    reason: str | None = None
    state: State | None = None  # what the job becomes, where that is not for the exit code to say
    has_started: bool = True  # or it could not be, or was not, started at all


class Verdict(NamedTuple):
    """Where a job goes after a run, and how its history puts it."""

    state: State
    outcome: str
    error_message: str | None = None
    run_at: Millis | None = None
    lost: int = 0


def after_run(job: Job, outcome: Outcome, now: Millis, max_backoff: float, chance: float = 0) -> Verdict:
    """What becomes of the job; chance, from 0 to 1, is how much of its jitter is added to the wait."""
    if outcome.state is State.PENDING:
        if job.no_rerun and outcome.has_started:
            return Verdict(State.DEAD, "dead", f"{outcome.reason}, and it must not run twice")
        return Verdict(State.PENDING, "released", outcome.reason, lost=job.lost)
    if outcome.state is State.CANCELLED:
        return cancelled(outcome.reason)
    if outcome.exit_code == 0:
        return Verdict(State.COMPLETED, "completed")
    reason = outcome.reason or f"exit code {outcome.exit_code}"
    if outcome.exit_code is not None and str(outcome.exit_code) in (job.no_retry_on or "").split(","):
        return Verdict(State.DEAD, "dead", f"{reason}, which is not retried")
    if job.attempts > job.max_retries:
        return Verdict(State.DEAD, "dead", reason)
    return Verdict(State.FAILED, "failed", reason, now + backoff_millis(job, max_backoff, chance))


def after_loss(job: Job, rebooted: bool) -> Verdict:
    """A lost worker costs its job no try; but a job that takes its workers down with it must not do so for ever."""
    if rebooted and not job.no_rerun:
        return Verdict(State.PENDING, "lost", "worker lost: the machine restarted", lost=job.lost)
    lost = job.lost + 1
    if job.no_rerun:
        return Verdict(State.DEAD, "lost", "worker lost, and it must not run twice", lost=lost)
    if lost >= MOST_LOST_IN_A_ROW:
        return Verdict(State.DEAD, "lost", f"worker lost {lost} times in a row", lost=lost)
    return Verdict(State.PENDING, "lost", "worker lost", lost=lost)


def cancelled(reason: str | None) -> Verdict:
    return Verdict(State.CANCELLED, "cancelled", reason)


def backoff_millis(job: Job, max_backoff: float, chance: float = 0) -> Millis:
    """The wait after the job's newest failure: min(backoff_base ** n, max_backoff) seconds, and some of its jitter."""
    try:
        seconds = min(float(job.backoff_base) ** job.attempts, max_backoff)
    except OverflowError:
        seconds = max_backoff
    return round(seconds * (1 + job.jitter * chance) * 1000)


# --- what a user hands in ---


def parse(fields: Mapping[str, Any], settings: Settings, cwd: str, now: Millis) -> NewJob:
    """A new job from its fields, by the names that the options and the JSON keys share."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        check = CHECKS.get(name) or unknown(name)
        if value is not None:
            values[name] = check(value)
    if "command" not in values:
        raise InvalidInput('No command. Write: queuectl enqueue "echo hello"')
    if "run_at" in values and "delay" in values:
        raise InvalidInput("Both run_at and delay are given. Keep one of them")
    command = values["command"]
    listed = isinstance(command, list)
    run_at = values.get("run_at")
    if "delay" in values:
        run_at = now + round(values["delay"] * 1000)
    directory = os.path.abspath(os.path.join(cwd, values.get("cwd", "")))
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
        max_retries=values.get("max_retries", settings.max_retries),
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
        no_rerun=int(values.get("no_rerun", False)),
        queue=values.get("queue", DEFAULT_QUEUE),
    )


def changes(job: Job, fields: Mapping[str, Any], cwd: str, now: Millis) -> dict[str, Any]:
    """The columns of a job that waits which these fields change; none of them can be taken away."""
    fixed = {"id", "unique", "depends_on", "after_any", "after_failed"}.intersection(fields)
    if fixed:
        raise InvalidInput(f"{min(fixed)} cannot be changed. Cancel the job, and enqueue another")
    if not any(value is not None for value in fields.values()):
        raise InvalidInput("Nothing to change. Name what is to be different, e.g. --priority 9")
    defaults = Settings(job.max_retries, job.backoff_base, timeout=job.timeout, priority=job.priority)
    wanted = parse({"command": job.command, **fields}, defaults, cwd, now)._asdict()
    columns = {"delay": "run_at"}
    given = [columns.get(name, name) for name, value in fields.items() if value is not None]
    found = {name: wanted[name] for name in given}
    return {**found, "argv": wanted["argv"]} if "command" in found else found


def needs(values: Mapping[str, Any]) -> tuple[Need, ...]:
    """The jobs that this one waits for, each once."""
    wanted = {"after_failed": State.DEAD.value, "after_any": ANY, "depends_on": State.COMPLETED.value}
    found = {job_id: Need(job_id, wanted[name]) for name in wanted for job_id in values.get(name, ())}
    return tuple(found.values())


def unknown(name: str) -> Callable[[Any], Any]:
    from difflib import get_close_matches

    near = get_close_matches(str(name).lower().replace("-", "_"), CHECKS, 1)
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
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, (list, tuple)):
            raise InvalidInput(f"{name} cannot be {brief(value)}. It takes the id of a job, or a list of ids")
        return [checked_id(job_id) for job_id in given]

    return check


def short_text(name: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_LABEL or not value.isprintable():
            raise InvalidInput(f"{name} cannot be {brief(value)}. It takes 1 to {LONGEST_LABEL} letters on one line")
        return clean(name, value.strip())

    return check


def checked_command(value: Any) -> Any:
    if isinstance(value, list):
        if not value or not all(isinstance(part, str) for part in value) or not value[0].strip():
            raise InvalidInput("command as a list takes the program and its arguments, all of them text")
        for part in value:
            clean("command", part)
    elif not isinstance(value, str):
        raise InvalidInput(f"command cannot be {brief(value)}. It takes a line for the shell, or a list of arguments")
    elif not value.strip():
        raise InvalidInput('The command is blank. Write: queuectl enqueue "echo hello"')
    else:
        clean("command", value)
    return value


def clean(name: str, text: str) -> str:
    """Text that a process can be given and that UTF-8 can carry."""
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
    if not isinstance(value, str):
        raise InvalidInput(f'run_at cannot be {brief(value)}. It takes a time such as "2027-01-31T02:00:00"')
    return parse_time(value)


def checked_delay(value: Any) -> float:
    if type(value) in (int, float) or isinstance(value, str):
        return parse_duration(str(value))
    raise InvalidInput(f'delay cannot be {brief(value)}. It takes a duration such as 90, "10m" or "2h30m"')


def checked_cwd(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"cwd cannot be {brief(value)}. It takes the path of a directory")
    return clean("cwd", value)


def check_windows_directory(path: str, shell: str) -> None:
    """Whether Windows can start a program there, and this shell go there."""
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
    """Exit codes as a list, a number, or text with commas."""
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    codes = [str(code).strip() for code in given]
    if not codes or not all(re.fullmatch(r"\d{1,10}", code, re.ASCII) for code in codes):
        raise InvalidInput(f"no_retry_on cannot be {brief(value)}. It takes exit codes, e.g. 2,64")
    return ",".join(dict.fromkeys(str(int(code)) for code in codes))


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
    "max_retries": whole_number("max_retries", 0, MOST_RETRIES, "a whole number from 0"),
    "timeout": whole_number("timeout", 0, MOST_SECONDS, "whole seconds, 0 for no limit"),
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
    """A list of arguments as one would type it on this platform."""
    if os.name == "nt":
        from subprocess import list2cmdline

        return list2cmdline(argv)
    from shlex import join

    return join(argv)


def to_json(value: Any) -> str:
    from json import dumps

    return dumps(value)
