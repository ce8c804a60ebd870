"""Errors that a user can fix, each with a message of one line: what is wrong, then what to do next."""

from __future__ import annotations


def brief(value: object) -> str:
    """The value as a message shows it, shortened so that the user can still recognise it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def sentence(text: str) -> str:
    """The text with a full stop, unless it already ends with punctuation."""
    return text if text.endswith((".", "?", "!")) else text + "."


class QueueError(Exception):
    """An error that is reported as one line, without a traceback."""

    exit_code = 1


class InvalidInput(QueueError):
    """The user's input is invalid; nothing was changed."""

    exit_code = 2


class JobNotFound(QueueError):
    def __init__(self, job_id: str, nearest: str | None = None) -> None:
        self.job_id = job_id
        hint = f"Did you mean {nearest!r}?" if nearest else "See: queuectl list"
        super().__init__(f"No job {brief(job_id)}. {hint}")


class NoJobs(QueueError):
    def __init__(self) -> None:
        super().__init__('There are no jobs yet. Hand one in: queuectl enqueue "echo hello"')


class DuplicateJob(QueueError):
    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"Job {job_id!r} exists already. Choose another id, or see: queuectl show {job_id}")


class TryNotFound(QueueError):
    def __init__(self, job_id: str, number: int, kind: str = "try") -> None:
        super().__init__(f"Job {job_id!r} has no {kind} {number}. See which it has: queuectl show {job_id}")


class QueueNotFound(QueueError):
    def __init__(self, name: str, nearest: str | None = None) -> None:
        hint = f"Did you mean {nearest!r}?" if nearest else f"Make it: queuectl queue add {name}"
        super().__init__(f"No queue {brief(name)}. {hint}")


class DuplicateQueue(QueueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Queue {name!r} exists already. To change it: queuectl queue set {name}")


class ScheduleNotFound(QueueError):
    def __init__(self, name: str, nearest: str | None = None) -> None:
        hint = f"Did you mean {nearest!r}?" if nearest else "See: queuectl schedule list"
        super().__init__(f"No schedule {brief(name)}. {hint}")


class DuplicateSchedule(QueueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Schedule {name!r} exists already. Remove it first: queuectl schedule remove {name}")


class WrongState(QueueError):
    """The job's state does not allow the operation."""


class WaitedTooLong(QueueError, TimeoutError):
    """The jobs did not end within the time given to wait for them; they go on."""

    exit_code = 124  # the same as coreutils' `timeout`

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Not all have ended within {seconds:g} s. They go on; see: queuectl list")


class LeaseLost(QueueError):
    """The lease is no longer the job's current one: the result of its run is not stored."""

    def __init__(self, job_id: str, lease: int) -> None:
        super().__init__(f"The lease {lease} of job {job_id!r} is no longer current: its result is not stored")


class QueueMoved(QueueError):
    """The queue was moved to another database, or is not completely copied to this one yet: it can only be read."""

    def __init__(self, moved_to: str | None = None, moving_from: str | None = None) -> None:
        if moving_from is not None:
            line = (
                f"A queue is being moved here from {moving_from}, and is not whole yet. "
                "Go on with it there: queuectl db move --to URL"
            )
        else:
            line = (
                f"This queue has moved to {moved_to}. Use it there: queuectl config set database URL; "
                "or, if that one is gone, open this one again: queuectl db reopen"
            )
        super().__init__(line)


class StorageError(QueueError):
    """The database cannot be used."""


class NewerSchema(StorageError):
    def __init__(self, place: str, version: int, known: int) -> None:
        super().__init__(
            f"{place} is of version {version}, and this queuectl knows versions up to {known}. "
            "Update your checkout of queuectl and install it again: pip install ."
        )
