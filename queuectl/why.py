"""Explain in plain sentences, from stored data only, why a job has not run yet, or why it ran when it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

from queuectl.errors import sentence
from queuectl.estimates import NOTHING, Expected, forecast, lanes_of
from queuectl.job import ANY, DEFAULT_QUEUE, Job, State
from queuectl.liveness import Condition, conditions
from queuectl.ranking import PROMOTED
from queuectl.storage import EVERY_QUEUE, MOST_COUNTED, Link, QueueRow, Run, Storage
from queuectl.times import Millis, clock_time, roughly, short, spoken

MOST_NAMED = 5
ENDS = {"completed": "was completed", "dead": "died", "cancelled": "was cancelled"}


class Facts(NamedTuple):
    """The data from which the reasons are derived."""

    job: Job
    now: Millis
    needs: Sequence[Link] = ()
    runs: Sequence[Run] = ()
    ahead: int = 0  # how many jobs are before it in line, counted up to MOST_COUNTED
    before: Sequence[Job] = ()  # the first of these jobs
    queue: QueueRow = QueueRow(DEFAULT_QUEUE)
    in_queue: int = 0  # how many jobs of its queue run
    paced: Sequence[tuple[str, Millis]] = ()  # rates that delay the next start, and until when
    working: int = 0  # live workers that serve its queue and were not asked to stop
    stopping: int = 0  # live workers that serve its queue and were asked to stop
    elsewhere: int = 0  # live workers that serve only other queues
    is_lost: bool = False  # whether the worker that runs it is dead
    running: Sequence[Job] = ()  # the jobs that run on workers that serve its queue
    expected: Expected = NOTHING


def gather(storage: Storage, job: Job) -> Facts:
    """Read the facts about a job; the cost does not depend on the length of the queue."""
    found = forecast(storage)
    known = conditions(storage)
    alive = [worker for worker, condition in known if condition is Condition.ALIVE]
    serving = [worker for worker in alive if worker.serves(job.queue)]
    names = {worker.name for worker in serving}
    running = storage.jobs(State.PROCESSING, MOST_COUNTED)
    [aged] = storage.aged([job])
    return Facts(
        aged,
        storage.clock.now(),
        needs=storage.needs_of(job),
        runs=storage.runs_of(job),
        ahead=0 if job.rank is None else storage.ahead(job.rank, job.seq, job.queue),
        before=storage.before(job, MOST_NAMED),
        queue=storage.known_queues.get(job.queue, QueueRow(job.queue)),
        in_queue=sum(one.queue == job.queue for one in running),
        paced=paced(storage, job.queue),
        working=sum(worker.stop_grace is None for worker in serving),
        stopping=sum(worker.stop_grace is not None for worker in serving),
        elsewhere=len(alive) - len(serving),
        is_lost=any(worker.name == job.worker and worker not in alive for worker, _ in known),
        running=[one for one in running if one.worker in names],
        expected=found.of(job),
    )


def paced(storage: Storage, queue: str) -> list[tuple[str, Millis]]:
    """The rates that keep jobs of this queue from starting now, and until when."""
    now, found = storage.clock.now(), []
    lanes = {name: lane for name, lane in lanes_of(storage).items() if name in (queue, EVERY_QUEUE)}
    for name, lane in lanes.items():
        if lane.start_at > now:
            text = storage.known_settings.rate if name == EVERY_QUEUE else storage.known_queues[name].rate_text
            whose = "The setting rate" if name == EVERY_QUEUE else f"The rate of its queue {name}"
            found.append((f"{whose}, {text},", ceil(lane.start_at)))
    return found


def reasons(facts: Facts) -> list[str]:
    """The answer, as a list of sentences."""
    job = facts.job
    if job.is_waiting:
        return [*waiting(facts)]
    if job.state is State.PROCESSING:
        return [*running(facts), *why_then(facts)]
    return [*ended(facts), *(why_then(facts) if job.started_at is not None else ())]


# --- a job that waits ---


def waiting(facts: Facts) -> Iterator[str]:
    job = facts.job
    if job.state is State.FAILED:
        yield f"Try {job.attempts} of {job.max_retries + 1} failed: {job.error_message}."
    elif job.error_message:
        yield f"Its last run ended before its time: {job.error_message}. No try was lost."
    if job.waits_for:
        yield from blocked(facts)
    elif job.due_at is not None:
        yield from later(job, job.due_at, facts.now)
    else:
        yield from in_line(facts)
    yield from gates(facts)
    yield from hands(facts)
    if facts.expected.start_at is not None:
        seconds = max(0, facts.expected.start_at - facts.now) / 1000
        at = clock_time(facts.expected.start_at, facts.now)
        yield f"Going by recent run times it starts in ~{roughly(seconds)}, at ~{at}."


def blocked(facts: Facts) -> Iterator[str]:
    left = [need for need in facts.needs if not need.is_met]
    for need in left[:MOST_NAMED]:
        yield f"It waits for job {need.id} to {be(need.wanted)}, which is {need.state}."
    if len(left) > MOST_NAMED:
        yield f"It waits for {others(len(left) - MOST_NAMED, len(left) >= MOST_COUNTED)}."
    if facts.job.run_at is not None and facts.job.run_at > facts.now:
        yield f"And it is scheduled for {short(facts.job.run_at)}."


def be(wanted: str) -> str:
    return {ANY: "end", State.DEAD.value: "be dead"}.get(wanted, f"be {wanted}")


def later(job: Job, due_at: Millis, now: Millis) -> Iterator[str]:
    seconds = (due_at - now) / 1000
    when = f"in {roughly(seconds)}, at {short(due_at)}" if seconds > 0 else "now"
    if job.state is State.FAILED:
        yield f"The next try is due {when}."
    elif seconds > 0:
        yield f"It is scheduled for {short(due_at)}, in {roughly(seconds)}."
    else:
        yield f"It was scheduled for {short(due_at)}: its time has come."


def in_line(facts: Facts) -> Iterator[str]:
    job = facts.job
    yield "It is next in line." if not facts.ahead else f"It is in line, {places(facts.ahead)} before it."
    yield f"Its effective priority is {sum_of(job)}."
    if job.rank is not None and job.rank <= PROMOTED:
        yield "It was promoted: it runs before all jobs that were not."
    if facts.before:
        named = ", ".join(f"{one.id} ({standing(one)})" for one in facts.before)
        rest = facts.ahead - len(facts.before)
        yield f"Before it: {named}{f' and {others(rest, facts.ahead >= MOST_COUNTED)}' if rest else ''}."
    if any(one.effective_priority == job.effective_priority for one in facts.before):
        yield "Jobs with the same effective priority run in the order in which they came."


def standing(job: Job) -> str:
    promoted = job.rank is not None and job.rank <= PROMOTED
    return "promoted" if promoted else f"effective priority {job.effective_priority}"


def gates(facts: Facts) -> Iterator[str]:
    """Whether its queue is paused or full, or a rate delays it."""
    queue = facts.queue
    if queue.is_paused:
        yield f"Its queue {queue.name} is paused. To let it go on: queuectl queue resume {queue.name}"
    elif facts.job.rank is not None:
        if queue.run_limit is not None and facts.in_queue >= queue.run_limit:
            yield f"Its queue {queue.name} is full: {facts.in_queue} of {queue.run_limit} run."
        for what, at in facts.paced:
            yield f"{what} lets the next job start at {clock_time(at, facts.now)}."


def hands(facts: Facts) -> Iterator[str]:
    """Whether a worker is free to take the job."""
    busy = [job.id for job in facts.running]
    if not facts.working and not facts.stopping and facts.elsewhere:
        start = f"queuectl worker start --queue {facts.queue.name}"
        yield f"No worker serves its queue {facts.queue.name}: it cannot start. Start one with: {start}"
    elif not facts.working:
        every = "Every worker was asked to stop" if facts.stopping else "No worker is running"
        yield f"{every}: it cannot start. Start one with: queuectl worker start"
    elif facts.job.rank is not None and len(busy) >= facts.working:
        names = ", ".join(busy[:MOST_NAMED]) + (" …" if len(busy) > MOST_NAMED else "")
        workers = "The worker is" if facts.working == 1 else f"All {facts.working} workers are"
        yield f"{workers} busy with {names}."


def places(count: int) -> str:
    if count >= MOST_COUNTED:
        return f"{count:,}+ jobs"
    return "1 job" if count == 1 else f"{count} jobs"


def others(count: int, or_more: bool) -> str:
    return "1 other" if count == 1 and not or_more else f"{count:,}{'+' * or_more} others"


def sum_of(job: Job) -> str:
    return f"{job.effective_priority}: priority {job.priority} + waiting_time {job.waiting_time}"


# --- a job that runs or has ended ---


def running(facts: Facts) -> Iterator[str]:
    job = facts.job
    assert job.started_at is not None
    since = spoken(max(0, facts.now - job.started_at) / 1000)
    if facts.is_lost:
        yield f"Worker {job.worker} started it at {short(job.started_at)}, {since} ago, and is lost."
        if facts.working or facts.stopping or facts.elsewhere:
            yield "Another worker puts it back in line, within seconds."
        else:
            yield "It goes back in line when a worker is started: queuectl worker start"
    else:
        yield f"It runs: worker {job.worker} started it at {short(job.started_at)}, {since} ago."
    if job.cancel_reason is not None:
        yield f"It is being cancelled: {sentence(job.cancel_reason)}"
    elif facts.expected.end_at is not None:
        seconds = (facts.expected.end_at - facts.now) / 1000
        at = clock_time(facts.expected.end_at, facts.now)
        yield f"Going by recent run times it ends in ~{roughly(seconds)}, at ~{at}."


def ended(facts: Facts) -> Iterator[str]:
    job = facts.job
    if job.state is State.CANCELLED:
        yield f"It was cancelled at {short(job.finished_at)}: {sentence(job.error_message or 'no reason was given')}"
        if job.started_at is None:
            yield "It never ran."
            return
    if job.state is State.DEAD:
        yield f"It was given up after {job.attempts} of {job.max_retries + 1} tries: {job.error_message}."
        yield f"It is not tried again by itself. To try it again: queuectl dlq retry {job.id}"
    if job.state is State.COMPLETED:
        yield f"Worker {job.worker} ran it at {short(job.started_at)}, for {took(job)}."


def took(job: Job) -> str:
    return spoken(job.duration_seconds or 0)


def why_then(facts: Facts) -> Iterator[str]:
    """Why the job's newest run began when it did."""
    job = facts.job
    assert job.started_at is not None
    if job.state in (State.DEAD, State.CANCELLED):
        yield f"Its newest run began at {short(job.started_at)}, and took {took(job)}."
    yield f"It was enqueued at {short(job.created_at)}."
    if job.after_id is not None:
        yield f"It waited for job {job.after_id}, which {ENDS.get(job.after_state or '', 'has ended')}."
    earlier = [run for run in facts.runs if run.lease < job.lease]
    if earlier:
        last = earlier[-1]
        reason = f": {last.error_message}" if last.error_message else ""
        yield f"Before that, try {last.lease} was {last.outcome} at {short(last.finished_at)}{reason}."
    if job.run_at is not None and job.created_at < job.run_at <= job.started_at:  # a later run_at is the next try's
        yield f"It was not to start before {short(job.run_at)}."
    if job.since_at is not None and job.waited_until == job.started_at:  # not if it was cancelled between two tries
        waited = spoken(max(0, job.started_at - job.since_at) / 1000)
        yield f"It had waited {waited}, and its effective priority was {sum_of(job)}."
