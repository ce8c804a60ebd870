"""The settings: their names, defaults and checks. All workers must agree on them, so they live in the database."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from queuectl.errors import InvalidInput, brief
from queuectl.ranking import ACCEPTED as AGING_ACCEPTED
from queuectl.ranking import Aging, parse_aging
from queuectl.times import UNIT_SECONDS, parse_duration


class Rate(NamedTuple):
    """At most `starts` jobs may start in `seconds` seconds."""

    starts: int
    seconds: int

    @property
    def interval_millis(self) -> float:
        """The time between two starts at an even pace."""
        return self.seconds * 1000 / self.starts

    @property
    def ahead_millis(self) -> int:
        """How far starts may run ahead of the even pace, to make up for a worker that claimed late."""
        return 100 if self.interval_millis < 1000 else 0


NONE = "none"
RATE = r"(\d{1,7})\s*/\s*(s|sec|seconds?|m|min|minutes?|h|hours?)"
LETTERS = {seconds: letter for letter, seconds in UNIT_SECONDS.items()}
RATE_ACCEPTED = "a rate such as 10/s, 100/m or 5/h (at most 1000/s), or none"


@lru_cache(maxsize=64)
def parse_rate(text: str) -> Rate | None:
    """None where there is no limit."""
    if text.strip().lower() in ("", NONE):
        return None
    found = re.fullmatch(RATE, text.strip().lower(), re.ASCII)
    rate = Rate(int(found[1]), UNIT_SECONDS[found[2][0]]) if found else Rate(0, 1)
    if not rate.starts or rate.interval_millis < 1:
        raise InvalidInput(f"rate cannot be {brief(text)}. It takes {RATE_ACCEPTED}")
    return rate


def rate(text: str) -> str:
    """The rate as it is stored and shown: 10/m, or an empty text for no limit."""
    found = parse_rate(text)
    return f"{found.starts}/{LETTERS[found.seconds]}" if found else ""


class Settings(NamedTuple):
    """The settings in force: the values that the user has set, else the defaults."""

    max_retries: int = 3
    backoff_base: float = 2
    max_backoff: float = 3600
    timeout: int = 0
    priority: int = 5
    aging: str = "1 enqueue"
    poll_interval: float = 0.05
    heartbeat_interval: float = 10
    stop_grace: float = 30
    worker_count: int = 1
    max_output: int = 1048576
    shell: str = ""
    keep_completed: str = "forever"
    max_log_bytes: int = 0
    rate: str = ""
    log_format: str = "text"

    @property
    def rate_rule(self) -> Rate | None:
        return parse_rate(self.rate)

    @property
    def aging_rule(self) -> Aging:
        return parse_aging(self.aging)

    @property
    def keep_completed_seconds(self) -> float | None:
        return None if self.keep_completed == FOREVER else parse_duration(self.keep_completed)


FOREVER = "forever"
LOG_TEXT, LOG_JSON = "text", "json"


class Setting(NamedTuple):
    parse: Callable[[str], Any]
    accepts: str
    meaning: str
    is_usable: Callable[[Any], bool] = lambda value: True  # checked only when it is set, because machines differ


def whole(least: int, most: int) -> Callable[[str], int]:
    return lambda text: within(int(plain(text)), least, most)


def number(least: float, most: float) -> Callable[[str], float]:
    return lambda text: within(float(plain(text)), least, most)


def plain(text: str) -> str:
    """Refuse underscores: Python reads 1_0 as 10, but a user who types it probably made a mistake."""
    if "_" in text:
        raise ValueError
    return text


def within(value: Any, least: float, most: float) -> Any:
    if not least <= value <= most:
        raise ValueError
    return int(value) if value == int(value) else value


def aging(text: str) -> str:
    parse_aging(text)
    return " ".join(text.split()).lower()


def shell(text: str) -> str:
    if "\0" in text:
        raise ValueError
    text.encode()  # raises UnicodeEncodeError, a ValueError, for text that UTF-8 cannot encode
    return text.strip()


def keeping(text: str) -> str:
    wanted = text.lower()
    if wanted != FOREVER:
        parse_duration(wanted)
        if not wanted[-1:].isalpha():  # a number without a unit could be meant as days or as seconds
            raise ValueError
    return wanted


def log_format(text: str) -> str:
    if text.lower() not in (LOG_TEXT, LOG_JSON):
        raise ValueError
    return text.lower()


def is_there(shell: str) -> bool:
    from shutil import which

    return shell in ("", NO_SHELL) or which(shell) is not None


NO_SHELL = "none"  # the line is split into a program and its arguments, and no shell interprets it
SHELLS = ("cmd", "powershell", "pwsh", "bash", NO_SHELL)
MOST_RETRIES = 1_000_000
MOST_SECONDS = 100 * 365 * 86400

SETTINGS: dict[str, Setting] = {
    "max_retries": Setting(whole(0, MOST_RETRIES), f"a whole number from 0 to {MOST_RETRIES}", "tries after the first"),
    "backoff_base": Setting(
        number(0, 1000), "a number from 0 to 1000", "the wait after failure n is backoff_base ** n seconds"
    ),
    "max_backoff": Setting(
        number(0, MOST_SECONDS), f"seconds, from 0 to {MOST_SECONDS}", "the longest wait between two tries"
    ),
    "timeout": Setting(
        whole(0, MOST_SECONDS), f"whole seconds up to {MOST_SECONDS}, 0 for no limit", "time limit for one run"
    ),
    "priority": Setting(
        whole(1, 10), "a whole number from 1 to 10", "priority of a job that names none; higher is sooner"
    ),
    "aging": Setting(aging, AGING_ACCEPTED, "what earns a waiting job one point"),
    "poll_interval": Setting(
        number(0.001, 1), "seconds, from 0.001 to 1", "how often at most an idle worker looks for work"
    ),
    "heartbeat_interval": Setting(
        number(0.1, 3600), "seconds, from 0.1 to 3600", "how often a worker says that it lives"
    ),
    "stop_grace": Setting(
        number(0, MOST_SECONDS),
        f"seconds, from 0 to {MOST_SECONDS}",
        "how long `worker stop` lets a job finish before it is killed",
    ),
    "worker_count": Setting(whole(1, 1000), "a whole number from 1 to 1000", "workers that `worker start` starts"),
    "max_output": Setting(
        whole(0, 100_000_000), "bytes, from 0 to 100000000", "how much of stdout and of stderr the job's row keeps"
    ),
    "shell": Setting(
        shell,
        f"{', '.join(SHELLS)} or the path of another shell, which must be there, or nothing for the platform's own",
        "what runs a command line",
        is_there,
    ),
    "keep_completed": Setting(
        keeping, "a duration such as 12h or 30d, or forever", "how long completed jobs are kept, with their logs"
    ),
    "max_log_bytes": Setting(
        whole(0, 2**63 - 1),
        "bytes, 0 for no limit",
        "how much disk the files in logs/ that keep whole outputs may use; the oldest are removed",
    ),
    "rate": Setting(rate, RATE_ACCEPTED, "how many jobs may start in a time, over all queues"),
    "log_format": Setting(log_format, "text or json", "how the workers write their logs"),
}


# This setting is not in the database: each machine keeps its own in config.json.
DATABASE = "database"
MEANINGS = {**{name: setting.meaning for name, setting in SETTINGS.items()}, DATABASE: "where the queue is"}


def canonical(name: str) -> str:
    """The setting's name; the user may write dashes instead of underscores."""
    wanted = name.strip().lower().replace("-", "_")
    if wanted not in MEANINGS:
        from difflib import get_close_matches

        near = get_close_matches(wanted, MEANINGS, 1)
        hint = f"Did you mean {near[0]}?" if near else "See: queuectl config list"
        raise InvalidInput(f"No setting {brief(name)}. {hint}")
    return wanted


def check(name: str, text: str) -> str:
    """The text that is stored for this value, or an error that says what would be accepted."""
    setting = SETTINGS[name]
    try:
        value = setting.parse(text.strip())
        if not setting.is_usable(value):
            raise ValueError
        return str(value)
    except (ValueError, OverflowError, InvalidInput):
        raise InvalidInput(f"{name} cannot be {brief(text)}. It takes {setting.accepts}") from None


def settings_from(stored: Mapping[str, str]) -> Settings:
    """The settings from the stored values, which were checked when set; names of newer versions are skipped."""
    return Settings(**{name: SETTINGS[name].parse(text) for name, text in stored.items() if name in SETTINGS})
