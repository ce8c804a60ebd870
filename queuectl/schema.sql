-- The schema, in steps. A database at version N is brought forward by the steps after N, in one transaction.

-- version 1: jobs, their runs, workers, settings and counters

-- Facts about the whole queue, such as its id and the clock offset that was seen last.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Counters that only grow: committed enqueues, the newest job's number, and changes of the settings.
CREATE TABLE clock (
    tick     INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    settings INTEGER NOT NULL
);

-- Updated in the transaction of every change, so that rows never have to be counted: how many jobs are in each
-- state, and how often each event has happened.
CREATE TABLE totals (
    pending         INTEGER NOT NULL,
    processing      INTEGER NOT NULL,
    completed       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    dead            INTEGER NOT NULL,
    cancelled       INTEGER NOT NULL,
    event_enqueued  INTEGER NOT NULL,
    event_started   INTEGER NOT NULL,
    event_completed INTEGER NOT NULL,
    event_failed    INTEGER NOT NULL,
    event_dead      INTEGER NOT NULL,
    event_cancelled INTEGER NOT NULL
);

-- Each distinct environment is stored once.
CREATE TABLE environments (
    hash      TEXT PRIMARY KEY,
    variables TEXT NOT NULL
);

CREATE TABLE jobs (
    seq              INTEGER PRIMARY KEY,
    id               TEXT NOT NULL UNIQUE,
    command          TEXT NOT NULL,
    argv             TEXT,               -- JSON; NULL: the command is a line for the shell
    state            TEXT NOT NULL,
    was              TEXT,               -- the state from which it was claimed
    priority         INTEGER NOT NULL,
    max_retries      INTEGER NOT NULL,
    timeout          INTEGER NOT NULL,
    backoff_base     REAL NOT NULL,
    attempts         INTEGER NOT NULL,
    lost             INTEGER NOT NULL,   -- workers lost in a row
    lease            INTEGER NOT NULL,   -- grows with every claim; only the holder of the newest may finish
    cwd              TEXT NOT NULL,
    environment      TEXT,               -- a hash
    env              TEXT,               -- JSON; added to the environment
    rank             INTEGER,            -- not NULL exactly while the job is in line
    since_tick       INTEGER,            -- when it began to wait, as a tick
    since_at         INTEGER,            -- and as a time
    started_tick     INTEGER,
    due_at           INTEGER,            -- not NULL exactly while it waits for its time to enter the line
    run_at           INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    started_at       INTEGER,
    finished_at      INTEGER,
    duration_seconds REAL,
    worker           TEXT,
    exit_code        INTEGER,
    error_message    TEXT,
    cancel_reason    TEXT,               -- not NULL: a cancellation of its run was requested
    output           TEXT,
    stderr           TEXT
);

CREATE INDEX jobs_ready ON jobs (rank, seq) WHERE rank IS NOT NULL;
CREATE INDEX jobs_due ON jobs (due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, seq) WHERE state <> 'pending';

-- One row for each run that has ended. Its output stays in the job's row until the next run begins.
CREATE TABLE runs (
    number           INTEGER PRIMARY KEY,
    seq              INTEGER NOT NULL,
    lease            INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    worker           TEXT,
    waited_seconds   REAL NOT NULL,
    started_at       INTEGER NOT NULL,
    finished_at      INTEGER NOT NULL,
    duration_seconds REAL NOT NULL,
    outcome          TEXT NOT NULL,      -- completed, failed, dead, cancelled, released or lost
    exit_code        INTEGER,
    error_message    TEXT,
    output           TEXT,
    stderr           TEXT
);

CREATE INDEX runs_of_job ON runs (seq, lease);

-- One row per living worker, removed by the worker when it ends, or by the process that finds the worker dead.
CREATE TABLE workers (
    name         TEXT PRIMARY KEY,
    pid          INTEGER NOT NULL,
    start_time   TEXT NOT NULL,          -- with pid, boot and pid space: the identity of the process
    boot_id      TEXT NOT NULL,
    pid_space    TEXT NOT NULL,
    host         TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    processed    INTEGER NOT NULL,
    stop_grace   REAL                    -- not NULL: asked to stop, with this many seconds for its current job
);

INSERT INTO clock VALUES (0, 0, 0);
INSERT INTO totals VALUES (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

-- version 2: many machines. Counters in shards, because all transactions would wait for the lock of a single row; idle
-- workers, which can be woken; and the machine of each environment
ALTER TABLE totals ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN idle INTEGER NOT NULL DEFAULT 0;
ALTER TABLE environments ADD COLUMN machine TEXT NOT NULL DEFAULT '';

-- version 3: everyday use. A job's own shell; labels; unique keys, under which one job at a time may wait or run;
-- dependencies between jobs
ALTER TABLE jobs ADD COLUMN shell TEXT;
ALTER TABLE jobs ADD COLUMN label TEXT;
ALTER TABLE jobs ADD COLUMN unique_key TEXT;
-- how many jobs must end before this one may enter the line
ALTER TABLE jobs ADD COLUMN waits_for INTEGER NOT NULL DEFAULT 0;
-- how many jobs were told to wait for this one
ALTER TABLE jobs ADD COLUMN dependents INTEGER NOT NULL DEFAULT 0;
-- the job whose end let this one enter the line
ALTER TABLE jobs ADD COLUMN woken_by INTEGER;
-- when it was last used: no job that names it was created more than a day later
ALTER TABLE environments ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE environments SET used_at = (SELECT COALESCE(MAX(created_at), 0) FROM jobs);
CREATE INDEX environments_used ON environments (used_at);

CREATE TABLE dependencies (
    seq    INTEGER NOT NULL,             -- the job that waits
    needs  INTEGER NOT NULL,             -- the job that it waits for
    wanted TEXT NOT NULL,                -- how the needed job must end: completed, dead, or any
    is_met INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (seq, needs)
);

CREATE INDEX dependencies_on ON dependencies (needs, seq);
CREATE INDEX jobs_blocked ON jobs (seq) WHERE waits_for > 0;
CREATE INDEX jobs_labelled ON jobs (label, seq) WHERE label IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON jobs (unique_key)
WHERE unique_key IS NOT NULL AND state IN ('pending', 'processing', 'failed');

-- version 4: named queues, recurring jobs, and how each job is to be retried
CREATE TABLE queues (
    name      TEXT PRIMARY KEY,          -- the row '*' has the rate over all queues together
    is_paused INTEGER NOT NULL,
    run_limit INTEGER,                   -- how many of its jobs may run at once; NULL: any number
    rate      TEXT,                      -- how many may start per unit of time, e.g. 10/s
    free_at   REAL NOT NULL              -- when the next start comes, at the even pace of the rate
);

INSERT INTO queues VALUES ('*', 0, NULL, NULL, 0);
INSERT INTO queues VALUES ('default', 0, NULL, NULL, 0);

ALTER TABLE jobs ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE totals ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE workers ADD COLUMN queues TEXT;
CREATE UNIQUE INDEX totals_of ON totals (queue, shard);
DROP INDEX jobs_ready;
CREATE INDEX jobs_ready ON jobs (queue, rank, seq) WHERE rank IS NOT NULL;
CREATE INDEX jobs_of_queue ON jobs (queue, state, seq) WHERE queue <> 'default';

CREATE TABLE schedules (
    name          TEXT PRIMARY KEY,
    cron          TEXT,                  -- or every_seconds
    every_seconds REAL,
    tz            TEXT NOT NULL,
    fields        TEXT NOT NULL,         -- JSON: the fields of the job, as the user gave them
    command       TEXT NOT NULL,
    cwd           TEXT NOT NULL,
    environment   TEXT,                  -- a hash
    missed        TEXT NOT NULL,         -- run-once or skip: what happens to occurrences while no worker was up
    may_overlap   INTEGER NOT NULL,      -- 1: also while the job of the last occurrence has not ended
    is_paused     INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    next_at       INTEGER NOT NULL,
    last_at       INTEGER,
    last_seq      INTEGER,               -- the job of the last occurrence that enqueued one
    note          TEXT                   -- why a later occurrence enqueued none
);

CREATE INDEX schedules_due ON schedules (next_at) WHERE is_paused = 0;

ALTER TABLE jobs ADD COLUMN no_retry_on TEXT;
ALTER TABLE jobs ADD COLUMN jitter REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN no_rerun INTEGER NOT NULL DEFAULT 0;
-- the trace that the job is part of, in W3C's format
ALTER TABLE jobs ADD COLUMN traceparent TEXT;

-- version 5: samples of the counters for the charts: one row per minute, for 25 hours
CREATE TABLE samples (
    minute    INTEGER NOT NULL PRIMARY KEY,
    completed INTEGER NOT NULL,          -- how often the event had happened when the minute began
    failed    INTEGER NOT NULL,
    dead      INTEGER NOT NULL,
    waiting   INTEGER NOT NULL,          -- how many jobs waited then
    running   INTEGER NOT NULL
);

-- version 6: what a job is told of the job whose end let it enter the line. It is stored at that moment, because the
-- other job may be retried or deleted before this one starts. It replaces woken_by, which is no longer written
ALTER TABLE jobs ADD COLUMN after_id TEXT;
ALTER TABLE jobs ADD COLUMN after_state TEXT;
ALTER TABLE jobs ADD COLUMN after_exit_code INTEGER;
UPDATE jobs SET
    after_id = (SELECT needed.id FROM jobs AS needed WHERE needed.seq = jobs.woken_by),
    after_state = (SELECT needed.state FROM jobs AS needed WHERE needed.seq = jobs.woken_by),
    after_exit_code = (SELECT needed.exit_code FROM jobs AS needed WHERE needed.seq = jobs.woken_by)
WHERE woken_by IS NOT NULL;
-- the job's newest lease when it was last retried by hand: runs up to this lease were before the retry
ALTER TABLE jobs ADD COLUMN begun_after INTEGER NOT NULL DEFAULT 0;
