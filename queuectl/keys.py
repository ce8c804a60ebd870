"""The keys of a job, as a type checker is told of them; nothing loads this when a program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TypedDict

from queuectl.job import Job
from queuectl.storage import Added

Ids = str | Added | Job | Sequence[str | Added | Job]


class Common(TypedDict, total=False):
    """What can be said of a job when it is enqueued, and changed while it waits; None is as if it was not given."""

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
    """Of `Queue.enqueue`."""

    id: str | None
    env: dict[str, str] | None
    unique: str | None
    depends_on: Ids | None
    after_any: Ids | None
    after_failed: Ids | None


class Changes(Common, total=False):
    """Of `Queue.edit`: a variable that is None is taken out, and those that are not named stay."""

    command: str | Sequence[str]
    env: Mapping[str, str | None] | None
