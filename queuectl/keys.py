"""The types of a job's keys, for type checkers only: this module is not imported at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TypedDict

from queuectl.job import Job
from queuectl.storage import Added

Ids = str | Added | Job | Sequence[str | Added | Job]


class Common(TypedDict, total=False):
    """The keys that can be given when a job is enqueued and changed while it waits; None means not given."""

    priority: int | None
    max_retries: int | None
    timeout: int | None
    backoff_base: float | None
    run_at: datetime | str | None
    delay: timedelta | float | str | None
    cwd: str | PathLike[str] | None
    label: str | None
    shell: str | None
    no_retry_on: int | str | Sequence[int] | None
    jitter: float | None
    no_rerun: bool | None
    queue: str | None


class Fields(Common, total=False):
    """The keyword arguments of `Queue.enqueue`."""

    id: str | None
    env: dict[str, str] | None
    unique: str | None
    depends_on: Ids | None
    after_any: Ids | None
    after_failed: Ids | None


class Changes(Common, total=False):
    """The keyword arguments of `Queue.edit`: in `env`, None removes a variable, and others than those named stay."""

    command: str | Sequence[str]
    env: Mapping[str, str | None] | None
