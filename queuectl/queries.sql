-- Every statement of the queue, for both engines: "-- name: reason", then the statement. Parameters are written :name;
-- {braces} hold a list of columns, or words in which the engines differ (see DIALECT in each of them).

-- the clock, settings and counters

-- meta: the facts about the whole queue
SELECT name, value FROM meta;

-- set_meta: store a fact, or replace its value
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- unset_meta: remove a fact that no longer holds
DELETE FROM meta WHERE name = :name;

-- shift_times: the clock was set by :delta. The rest of a backoff and the time that jobs have waited stay the same; a
-- pending job's run_at is a time of the wall clock, and stays as it is
UPDATE jobs SET
    since_at = since_at + :delta,
    started_at = CASE WHEN state = 'processing' THEN started_at + :delta ELSE started_at END,
    rank = CASE WHEN rank > {promoted} THEN rank + :millis * :delta ELSE rank END,
    due_at = CASE WHEN state = 'failed' THEN due_at + :delta ELSE due_at END,
    run_at = CASE WHEN state = 'failed' THEN run_at + :delta ELSE run_at END
WHERE seq IN (
    SELECT seq FROM jobs WHERE rank IS NOT NULL
    UNION ALL SELECT seq FROM jobs WHERE due_at IS NOT NULL
    UNION ALL SELECT seq FROM jobs WHERE state = 'processing' AND state <> 'pending'
);

-- shift_rates: the rest of a delay by a rate stays the same, too
UPDATE queues SET free_at = free_at + :delta;

-- settings: only settings that differ from their defaults have a row. The query also tells whether the queue has moved,
-- so that every transaction learns of it without another query
SELECT name, value FROM settings UNION ALL SELECT name, value FROM meta WHERE name IN ('moved_to', 'moving_from');

-- set_setting: a setting has one value
INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- unset_setting: back to the default
DELETE FROM settings WHERE name = :name;

-- clock: the aging tick, a number that changes with the settings, when the next job is due, and the time
SELECT {tick}, settings, (SELECT due_at FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at, seq LIMIT 1), {now}
FROM clock;

-- settings_changed: every connection reads the settings again
UPDATE clock SET settings = settings + 1;

-- snapshot: all reads of this transaction see the same moment
BEGIN {snapshot};

-- counters: the newest tick, and the newest job's number
SELECT {tick}, {seq} FROM clock;

-- set_counters: continue from these
UPDATE clock SET tick = :tick, seq = :seq;

-- is_used: whether anything is in this queue: jobs, workers, schedules or named queues
SELECT 1 FROM jobs UNION ALL SELECT 1 FROM workers UNION ALL SELECT 1 FROM schedules
UNION ALL SELECT 1 FROM queues WHERE name NOT IN ('*', 'default') LIMIT 1;

-- count: the totals move with the change they count, in the same transaction
UPDATE totals SET
    pending = pending + :pending, processing = processing + :processing, completed = completed + :completed,
    failed = failed + :failed, dead = dead + :dead, cancelled = cancelled + :cancelled,
    event_enqueued = event_enqueued + :event_enqueued, event_started = event_started + :event_started,
    event_completed = event_completed + :event_completed, event_failed = event_failed + :event_failed,
    event_dead = event_dead + :event_dead, event_cancelled = event_cancelled + :event_cancelled
WHERE queue = :queue AND shard = :shard;

-- totals: all counters, summed up
SELECT {totals} FROM totals;

-- totals_by_queue: the same per queue
SELECT queue, {totals} FROM totals GROUP BY queue;

-- the line

-- add_environment: each distinct environment is stored once
INSERT INTO environments (hash, variables, machine, used_at) VALUES (:hash, :variables, :machine, :used_at)
ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at;

-- environment_used: when the environment was last used; most jobs use one that is already stored
SELECT used_at FROM environments WHERE hash = :hash;

-- latest_use: when any environment was last used
SELECT used_at FROM environments ORDER BY used_at DESC LIMIT 1;

-- oldest_job: when the oldest stored job was added
SELECT created_at FROM jobs WHERE seq > 0 ORDER BY seq LIMIT 1;

-- old_environments: whether there are environments that forget_environments would remove
SELECT hash FROM environments
WHERE used_at < :before AND hash NOT IN (SELECT environment FROM schedules WHERE environment IS NOT NULL) LIMIT 1;

-- forget_environments: they were last used before the oldest stored job was added, and no schedule uses them
DELETE FROM environments
WHERE used_at < :before AND hash NOT IN (SELECT environment FROM schedules WHERE environment IS NOT NULL);

-- use_environment: a schedule uses its environment, even if no stored job does
UPDATE environments SET used_at = :used_at WHERE hash = :hash;

-- environment: the variables for a run
SELECT variables, machine FROM environments WHERE hash = :hash;

-- add: a new job; in line at once if its rank is given, otherwise it waits for run_at or for other jobs
INSERT INTO jobs (
    seq, id, command, argv, state, priority, max_retries, timeout, backoff_base, attempts, lost, lease,
    cwd, environment, env, queue, label, unique_key, shell, no_retry_on, jitter, no_rerun, traceparent, waits_for,
    dependents, after_id, after_state, after_exit_code, rank, since_tick, since_at, due_at, run_at, created_at, updated_at
) VALUES (
    :seq, :id, :command, :argv, 'pending', :priority, :max_retries, :timeout, :backoff_base, 0, 0, 0,
    :cwd, :environment, :env, :queue, :label, :unique_key, :shell, :no_retry_on, :jitter, :no_rerun, :traceparent,
    :waits_for, :dependents, :after_id, :after_state, :after_exit_code, :rank, :since_tick, :since_at, :due_at, :run_at,
    :now, :now
) ON CONFLICT DO NOTHING;

-- seq_of: the number of the job with this id
SELECT seq FROM jobs WHERE id = :id;

-- owner_of_key: the waiting or running job that holds this unique key
SELECT seq, id, rank, queue FROM jobs
WHERE unique_key = :unique_key AND unique_key IS NOT NULL AND state IN ('pending', 'processing', 'failed');

-- needed: a job gets this many more dependents; the row lock keeps it from ending before the transaction does
UPDATE jobs SET dependents = dependents + :dependents WHERE seq = :seq RETURNING state, finished_at, exit_code;

-- add_dependency: job :seq waits for job :needs
INSERT INTO dependencies (seq, needs, wanted, is_met) VALUES (:seq, :needs, :wanted, :is_met);

-- let_in: a job has ended as these dependents require. A dependent that waits for no other job enters the line, or
-- waits for its run_at
UPDATE jobs SET
    waits_for = waits_for - 1,
    after_id = :after_id,
    after_state = :state,
    after_exit_code = (SELECT exit_code FROM jobs AS needed WHERE needed.seq = :needs),
    since_tick = CASE WHEN waits_for = 1 AND COALESCE(run_at, 0) <= :now THEN :tick END,
    since_at = CASE WHEN waits_for = 1 AND COALESCE(run_at, 0) <= :now THEN :now END,
    rank = CASE
        WHEN waits_for = 1 AND COALESCE(run_at, 0) <= :now THEN :ticks * :tick + :millis * :now - priority * :point
    END,
    due_at = CASE WHEN waits_for = 1 AND run_at > :now THEN run_at END
WHERE waits_for > 0 AND seq IN (
    SELECT seq FROM jobs AS waiting WHERE seq IN (
        SELECT seq FROM dependencies WHERE needs = :needs AND is_met = 0 AND wanted IN ('any', :state)
    ) ORDER BY seq {for_update}
);

-- mark_met: a dependency that was met once stays met, even if the needed job is retried
UPDATE dependencies SET is_met = 1 WHERE needs = :needs AND is_met = 0 AND wanted IN ('any', :state);

-- doomed: the dependents that require another end, and so can never run
SELECT seq, id, queue, dependents FROM jobs WHERE waits_for > 0 AND seq IN (
    SELECT seq FROM dependencies WHERE needs = :needs AND is_met = 0 AND wanted NOT IN ('any', :state)
) ORDER BY seq {for_update};

-- admit: due jobs enter the line, in batches, so that a wave of them does not stall the workers; a job that backed off
-- has been aging all along, a scheduled job begins now
UPDATE jobs SET
    since_tick = COALESCE(since_tick, :tick),
    since_at = COALESCE(since_at, due_at),
    rank = :ticks * COALESCE(since_tick, :tick) + :millis * COALESCE(since_at, due_at) - priority * :point,
    due_at = NULL
WHERE seq IN (
    SELECT seq FROM jobs WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at, seq LIMIT :batch {skip_locked}
) AND due_at IS NOT NULL;

-- rerank: the aging rule has changed; once for every job in line, except for promoted jobs
UPDATE jobs SET rank = :ticks * since_tick + :millis * since_at - priority * :point
WHERE rank IS NOT NULL AND rank > {promoted};

-- head: the first job in a queue's line
SELECT rank, seq FROM jobs WHERE queue = :queue AND rank IS NOT NULL ORDER BY rank, seq LIMIT 1;

-- behind: the next job in a queue's line after this place
SELECT rank, seq FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND (rank, seq) > (:rank, :seq)
ORDER BY rank, seq LIMIT 1;

-- claim: the job with the smallest rank in the queue, unless another queue's first job is better (:most); from here on
-- only the holder of the new lease may finish the job
UPDATE jobs SET
    state = 'processing', was = state, rank = NULL, lease = lease + 1, attempts = attempts + 1, worker = :worker,
    started_tick = :tick, started_at = :now, updated_at = :now, finished_at = NULL, duration_seconds = NULL,
    exit_code = NULL, error_message = NULL, cancel_reason = NULL
WHERE seq = (
    SELECT seq FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND rank <= :most ORDER BY rank, seq LIMIT 1 {skip_locked}
)
RETURNING {job};

-- keep_output: a new run begins, so what the last one printed moves from the job's row to the run's
UPDATE runs SET
    output = (SELECT output FROM jobs WHERE jobs.seq = runs.seq),
    stderr = (SELECT stderr FROM jobs WHERE jobs.seq = runs.seq)
WHERE number = (SELECT number FROM runs WHERE seq = :seq ORDER BY lease DESC LIMIT 1);

-- clear_output: the job's row carries the newest run's output, and that run has only begun
UPDATE jobs SET output = NULL, stderr = NULL WHERE seq = :seq;

-- finish: the job has ended; only the worker that still holds the lease, and knows the job's number of dependents, may
-- say so
UPDATE jobs SET
    state = :state, lost = :lost, updated_at = :now, finished_at = :now, duration_seconds = :duration_seconds,
    exit_code = :exit_code, error_message = :error_message, output = :output, stderr = :stderr
WHERE seq = :seq AND lease = :lease AND state = 'processing' AND dependents = :dependents;

-- dependents: how many jobs wait for this one; the row lock keeps the number from changing until the transaction ends
SELECT dependents FROM jobs WHERE seq = :seq {for_update};

-- back_off: the job is tried again at run_at; the time of its run does not count as waiting
UPDATE jobs SET
    state = 'failed', lost = :lost, run_at = :run_at, due_at = :run_at, updated_at = :now, finished_at = :now,
    since_tick = since_tick + :tick - started_tick, since_at = since_at + :now - started_at, started_tick = NULL,
    duration_seconds = :duration_seconds, exit_code = :exit_code, error_message = :error_message,
    output = :output, stderr = :stderr
WHERE seq = :seq AND lease = :lease AND state = 'processing';

-- put_back: the run was ended or lost through no fault of the job: it is in line again at its old place, and loses no
-- try
UPDATE jobs SET
    state = 'pending', attempts = attempts - 1, lost = :lost, updated_at = :now, finished_at = NULL,
    since_tick = since_tick + :tick - started_tick, since_at = since_at + :now - started_at, started_tick = NULL,
    rank = :ticks * (since_tick + :tick - started_tick) + :millis * (since_at + :now - started_at) - priority * :point,
    duration_seconds = :duration_seconds, exit_code = :exit_code, error_message = :error_message,
    output = :output, stderr = :stderr
WHERE seq = :seq AND lease = :lease AND state = 'processing';

-- cancel_waiting: no worker has the job, so it is cancelled at once
UPDATE jobs SET
    state = 'cancelled', rank = NULL, due_at = NULL, waits_for = 0, started_tick = :tick, error_message = :reason,
    updated_at = :now, finished_at = :now
WHERE seq = :seq;

-- cancel_running: the job's worker reads this, and cancels the job once the processes of its run are dead
UPDATE jobs SET cancel_reason = :reason, updated_at = :now WHERE seq = :seq;

-- add_run: the history, one row per run
INSERT INTO runs (
    seq, lease, attempt, worker, waited_seconds, started_at, finished_at, duration_seconds, outcome, exit_code, error_message
) VALUES (
    :seq, :lease, :attempt, :worker, :waited_seconds, :started_at, :now, :duration_seconds, :outcome, :exit_code,
    :error_message
);

-- retry: an ended job starts again with no waiting time; not while another job waits or runs under its unique key
UPDATE jobs SET
    state = 'pending', queue = :queue, attempts = 0, lost = 0, run_at = NULL, since_tick = :tick, since_at = :now,
    started_tick = NULL, rank = :ticks * :tick + :millis * :now - priority * :point, error_message = NULL,
    cancel_reason = NULL, updated_at = :now, finished_at = NULL, begun_after = lease
WHERE seq = :seq AND state = :state AND state IN ('completed', 'dead', 'cancelled') AND NOT EXISTS (
    SELECT 1 FROM jobs AS other WHERE other.unique_key = jobs.unique_key AND other.unique_key IS NOT NULL
        AND other.state IN ('pending', 'processing', 'failed')
);

-- hold_needs: the jobs that a job waited for; the row locks keep them from ending before the transaction does
SELECT seq, id, state, (SELECT wanted FROM dependencies WHERE dependencies.seq = :seq AND needs = jobs.seq)
FROM jobs WHERE seq IN (SELECT needs FROM dependencies WHERE seq = :seq) ORDER BY seq {for_update};

-- wait_again: a retried job waits for needed jobs that have not ended, and for none of the others
UPDATE dependencies SET is_met = :is_met WHERE seq = :seq AND needs = :needs;

-- block: out of the line, until this many jobs have ended
UPDATE jobs SET waits_for = :waits_for, rank = NULL, since_tick = NULL, since_at = NULL WHERE seq = :seq;

-- edit: the fields of a waiting job that a user can change, and its place in line
UPDATE jobs SET
    command = :command, argv = :argv, priority = :priority, max_retries = :max_retries, timeout = :timeout,
    backoff_base = :backoff_base, cwd = :cwd, shell = :shell, env = :env, queue = :queue, label = :label,
    no_retry_on = :no_retry_on, jitter = :jitter, no_rerun = :no_rerun, run_at = :run_at, due_at = :due_at,
    rank = :rank, since_tick = :since_tick, since_at = :since_at, updated_at = :now
WHERE seq = :seq;

-- promote: before all other jobs in line, whatever their rank; the next claim uses the promotion up
UPDATE jobs SET
    rank = :rank, since_tick = COALESCE(since_tick, :tick), since_at = COALESCE(since_at, :now), due_at = NULL,
    run_at = NULL, updated_at = :now
WHERE seq = :seq;

-- delete_runs: a job's history goes with it
DELETE FROM runs WHERE seq = :seq;

-- delete_dependencies: the deleted job waits for no other job
DELETE FROM dependencies WHERE seq = :seq;

-- forget_needs: no other job waits for the deleted job
DELETE FROM dependencies WHERE needs = :seq;

-- delete: only in the state in which the user selected the job, and never while it runs
DELETE FROM jobs WHERE seq = :seq AND state = :state AND state <> 'processing' RETURNING {job};

-- reading jobs and runs

-- job: one job with its output
SELECT {job}, output, stderr FROM jobs WHERE id = :id;

-- job_at: the same, by the job's number
SELECT {job}, output, stderr FROM jobs WHERE seq = :seq;

-- glance: one job without its output
SELECT {job} FROM jobs WHERE id = :id;

-- hold: read a job and lock its row until the transaction ends
SELECT {job} FROM jobs WHERE seq = :seq {for_update};

-- cancel_reason: the job's worker asks for this during the run
SELECT cancel_reason FROM jobs WHERE seq = :seq;

-- cancel_asked: the same, and the row lock keeps anyone from requesting a cancellation until the transaction ends
SELECT cancel_reason FROM jobs WHERE seq = :seq {for_update};

-- printed: the output is in the run's own row once the next run has begun, until then in the job's row
SELECT COALESCE(runs.output, jobs.output), COALESCE(runs.stderr, jobs.stderr)
FROM runs JOIN jobs ON jobs.seq = runs.seq WHERE runs.seq = :seq AND runs.lease = :lease;

-- jobs: the newest first
SELECT {job} FROM jobs WHERE seq < :before ORDER BY seq DESC LIMIT :limit;

-- jobs_in_state: the newest first; pending jobs have no such index, because every claim would have to update it
SELECT {job} FROM jobs WHERE state = :state AND state <> 'pending' AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- jobs_labelled: the newest first
SELECT {job} FROM jobs WHERE label = :label AND label IS NOT NULL AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- jobs_of_queue: jobs of a named queue in one state, the newest first; jobs of the default queue have no such index,
-- because every job would have to update it
SELECT {job} FROM jobs WHERE queue = :queue AND queue <> 'default' AND state = :state AND seq < :before
ORDER BY seq DESC LIMIT :limit;

-- in_line: the jobs in the order in which they will run, after a place in line
SELECT {job} FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND (rank, seq) > (:key, :seq)
ORDER BY rank, seq LIMIT :limit;

-- front: the first jobs in a queue's line, with their commands, for estimates
SELECT seq, SUBSTR(command, 1, CAST(:letters AS INTEGER)), queue, rank FROM jobs
WHERE queue = :queue AND rank IS NOT NULL ORDER BY rank, seq LIMIT :limit;

-- later: the jobs that wait for their time, in the order of that time, after one of them
SELECT {job} FROM jobs WHERE due_at IS NOT NULL AND (due_at, seq) > (:key, :seq) ORDER BY due_at, seq LIMIT :limit;

-- last_due: before this time not all jobs can have ended
SELECT due_at FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at DESC, seq DESC LIMIT 1;

-- blocked: the jobs that wait for other jobs
SELECT {job} FROM jobs WHERE waits_for > 0 AND seq > :seq ORDER BY seq LIMIT :limit;

-- completed_before: jobs that ended by :before, among a limited number of the oldest completed jobs
SELECT {job} FROM jobs WHERE seq IN (
    SELECT seq FROM (
        SELECT seq, finished_at FROM jobs WHERE state = 'completed' AND state <> 'pending' ORDER BY seq LIMIT :looked_at
    ) AS oldest WHERE finished_at <= :before LIMIT :most
);

-- newest: the job that was added last
SELECT id FROM jobs WHERE seq > 0 ORDER BY seq DESC LIMIT 1;

-- glance_at: one job without its output, by its number
SELECT {job} FROM jobs WHERE seq = :seq;

-- needs_of: the jobs that a job waits for, or has waited for
SELECT jobs.id, jobs.state, dependencies.wanted, dependencies.is_met
FROM dependencies JOIN jobs ON jobs.seq = dependencies.needs WHERE dependencies.seq = :seq
ORDER BY dependencies.needs LIMIT :limit;

-- would_go: the dependents that can never run once this job is cancelled
SELECT seq, dependents FROM jobs WHERE waits_for > 0 AND seq IN (
    SELECT seq FROM dependencies WHERE needs = :seq AND is_met = 0 AND wanted NOT IN ('any', 'cancelled')
) ORDER BY seq LIMIT :limit;

-- stay_cancelled: the cancelled dependents of a job, which are not retried with it
SELECT jobs.seq, jobs.dependents FROM dependencies JOIN jobs ON jobs.seq = dependencies.seq
WHERE dependencies.needs = :seq AND dependencies.wanted <> 'any' AND jobs.state = 'cancelled'
ORDER BY dependencies.seq LIMIT :limit;

-- tied_to: the numbers of the jobs that wait for this one, or have waited for it
SELECT seq FROM dependencies WHERE needs = :seq;

-- dependents_of: the jobs that wait for this one, or have waited for it
SELECT jobs.id, jobs.state, dependencies.wanted, dependencies.is_met
FROM dependencies JOIN jobs ON jobs.seq = dependencies.seq WHERE dependencies.needs = :seq
ORDER BY dependencies.seq LIMIT :limit;

-- runs_of: every try of a job
SELECT lease, attempt, worker, started_at, finished_at, duration_seconds, outcome, exit_code, error_message
FROM runs WHERE seq = :seq ORDER BY lease;

-- ahead: how many jobs are before this place in a queue's line; counting stops at :most
SELECT COUNT(*) FROM (
    SELECT 1 FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND (rank, seq) < (:rank, :seq)
    ORDER BY rank, seq LIMIT :most
) AS before;

-- counted_waiting: how many jobs wait for their time, and how many for other jobs; counting stops at :most
SELECT (
    SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at, seq LIMIT :most) AS later
), (
    SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE waits_for > 0 ORDER BY seq LIMIT :most) AS blocked
);

-- ids_near: the ids next to this one in alphabetical order, in case it was misspelt
SELECT id FROM (SELECT id FROM jobs WHERE id >= :id ORDER BY id LIMIT 50) AS after
UNION ALL
SELECT id FROM (SELECT id FROM jobs WHERE id < :id ORDER BY id DESC LIMIT 50) AS before;

-- newest_ids: the ids that a user most likely meant
SELECT id FROM jobs ORDER BY seq DESC LIMIT 100;

-- newest_runs: the runs from which the percentiles, the rate and the estimates are computed
SELECT (SELECT id FROM jobs WHERE jobs.seq = runs.seq),
    worker, started_at, finished_at, duration_seconds, waited_seconds, outcome,
    (SELECT SUBSTR(command, 1, CAST(:letters AS INTEGER)) FROM jobs WHERE jobs.seq = runs.seq),
    (SELECT queue FROM jobs WHERE jobs.seq = runs.seq)
FROM runs ORDER BY number DESC LIMIT :limit;

-- long_runs: the runs that took at least this long, among the newest
SELECT (SELECT id FROM jobs WHERE jobs.seq = newest.seq),
    worker, started_at, finished_at, duration_seconds, waited_seconds, outcome,
    (SELECT SUBSTR(command, 1, CAST(:letters AS INTEGER)) FROM jobs WHERE jobs.seq = newest.seq),
    (SELECT queue FROM jobs WHERE jobs.seq = newest.seq)
FROM (
    SELECT seq, worker, started_at, finished_at, duration_seconds, waited_seconds, outcome
    FROM runs ORDER BY number DESC LIMIT :looked_at
) AS newest WHERE duration_seconds >= :least_seconds LIMIT :limit;

-- newest_run_jobs: the jobs whose runs ended last
SELECT seq FROM runs ORDER BY number DESC LIMIT :limit;

-- figures for monitoring

-- newest_run: the number of the run that was stored last
SELECT number FROM runs ORDER BY number DESC LIMIT 1;

-- runs_after: the runs stored after this one, with their queues
SELECT number, (SELECT queue FROM jobs WHERE jobs.seq = runs.seq), duration_seconds, waited_seconds
FROM runs WHERE number > :number ORDER BY number LIMIT :limit;

-- oldest_in_line: the earliest since_at among the first jobs in line; a job that has waited for long is one of them
SELECT MIN(since_at) FROM (
    SELECT since_at FROM jobs WHERE queue = :queue AND rank IS NOT NULL ORDER BY rank, seq LIMIT :limit
) AS first;

-- samples, for the charts

-- sampled: whether another process has already stored this minute's sample
SELECT minute FROM samples WHERE minute = :minute;

-- add_sample: the counters as this minute begins; the first sample of a minute is kept
INSERT INTO samples (minute, completed, failed, dead, waiting, running)
SELECT CAST(:minute AS BIGINT), CAST(SUM(event_completed) AS BIGINT), CAST(SUM(event_failed) AS BIGINT),
    CAST(SUM(event_dead) AS BIGINT), CAST(SUM(pending + failed) AS BIGINT), CAST(SUM(processing) AS BIGINT)
FROM totals WHERE TRUE ON CONFLICT (minute) DO NOTHING;

-- forget_samples: those older than the charts show, and those after now, which exist if the clock was set back
DELETE FROM samples WHERE minute < :oldest OR minute > :newest;

-- samples: the samples of these minutes
SELECT minute, completed, failed, dead, waiting, running FROM samples
WHERE minute BETWEEN :first AND :last ORDER BY minute;

-- workers

-- add_worker: a worker starts
INSERT INTO workers (name, pid, start_time, boot_id, pid_space, host, started_at, heartbeat_at, processed, queues)
VALUES (:name, :pid, :start_time, :boot_id, :pid_space, :host, :started_at, :heartbeat_at, 0, :queues);

-- heartbeat: the worker is alive, and has done this many runs
UPDATE workers SET heartbeat_at = :now, processed = :processed WHERE name = :name;

-- workers: all of them, oldest first
SELECT name, pid, start_time, boot_id, pid_space, host, started_at, heartbeat_at, processed, stop_grace, queues
FROM workers ORDER BY started_at, name;

-- stop_grace: whether this worker was asked to stop
SELECT stop_grace FROM workers WHERE name = :name;

-- ask_to_stop: the worker reads the request from its row, so no signal is needed
UPDATE workers SET stop_grace = :stop_grace WHERE name = :name;

-- mark_idle: an enqueue may wake the worker
UPDATE workers SET idle = :idle WHERE name = :name;

-- remove_worker: it has ended
DELETE FROM workers WHERE name = :name;

-- heard_at: a worker's last heartbeat; the row lock delays its next one until the transaction ends
SELECT heartbeat_at FROM workers WHERE name = :name {for_update};

-- remove_dead: a worker that was found dead, unless it has sent a heartbeat since
DELETE FROM workers WHERE name = :name AND heartbeat_at = :heartbeat_at;

-- held_by: the jobs that a worker runs
SELECT {job} FROM jobs WHERE state = 'processing' AND state <> 'pending' AND worker = :worker;

-- orphans: the running jobs whose worker has no row
SELECT {job} FROM jobs
WHERE state = 'processing' AND state <> 'pending' AND NOT EXISTS (SELECT 1 FROM workers WHERE name = jobs.worker);

-- recurring jobs

-- schedules: all of them
SELECT {schedule} FROM schedules ORDER BY name;

-- schedule_fields: the job fields of each schedule
SELECT name, fields FROM schedules ORDER BY name;

-- schedule: one schedule
SELECT {schedule} FROM schedules WHERE name = :name;

-- hold_schedule: lock the schedule: only one transaction finds that its next occurrence is still to be taken
SELECT {schedule} FROM schedules WHERE name = :name {for_update};

-- next_schedules: the schedules that come next
SELECT {schedule} FROM schedules WHERE is_paused = 0 ORDER BY next_at LIMIT :limit;

-- next_occurrence: when a worker has to look at the schedules again
SELECT next_at FROM schedules WHERE is_paused = 0 ORDER BY next_at LIMIT 1;

-- due_schedules: the schedules whose time has come
SELECT {schedule} FROM schedules WHERE is_paused = 0 AND next_at <= :now ORDER BY next_at LIMIT 100;

-- add_schedule: a name has one schedule
INSERT INTO schedules (
    name, cron, every_seconds, tz, fields, command, cwd, environment, missed, may_overlap, is_paused, created_at, next_at
) VALUES (
    :name, :cron, :every_seconds, :tz, :fields, :command, :cwd, :environment, :missed, :may_overlap, :is_paused, :created_at,
    :next_at
) ON CONFLICT (name) DO NOTHING;

-- move_schedule: the result of an occurrence, and when the next one comes
UPDATE schedules SET
    is_paused = :is_paused, next_at = :next_at, last_at = :last_at, last_seq = :last_seq, note = :note
WHERE name = :name;

-- shift_schedules: the clock was set by :delta. The rest of an interval stays the same; a cron time is a time of the
-- wall clock, and stays as it is
UPDATE schedules SET next_at = next_at + :delta WHERE every_seconds IS NOT NULL;

-- remove_schedule: the jobs that it enqueued stay
DELETE FROM schedules WHERE name = :name;

-- named queues

-- queues: all of them
SELECT name, is_paused, run_limit, rate FROM queues WHERE name <> '*' ORDER BY name;

-- running: how many of a queue's jobs run now: never more than there are workers
SELECT COUNT(*) FROM jobs WHERE state = 'processing' AND state <> 'pending' AND queue = :queue;

-- mark: locks taken from here on can be released
SAVEPOINT held;

-- let_go: release the locks taken since the savepoint
ROLLBACK TO SAVEPOINT held;

-- hold_queue: lock the queue: no other transaction starts a job in it until this one ends, or releases the lock
SELECT name FROM queues WHERE name = :name {for_update};

-- free_at: when the next start comes, at the even pace of the rate
SELECT free_at FROM queues WHERE name = :name;

-- set_free_at: a job was started: when the next start may come
UPDATE queues SET free_at = :free_at WHERE name = :name;

-- add_queue: a name has one queue
INSERT INTO queues (name, is_paused, run_limit, rate, free_at) VALUES (:name, :is_paused, :run_limit, :rate_text, 0)
ON CONFLICT (name) DO NOTHING;

-- add_totals: the counters of a queue; if a removed queue had the same name, its counters go on
INSERT INTO totals (
    queue, shard, pending, processing, completed, failed, dead, cancelled, event_enqueued, event_started, event_completed,
    event_failed, event_dead, event_cancelled
) VALUES (:queue, :shard, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) ON CONFLICT (queue, shard) DO NOTHING;

-- set_queue: its limits, and whether it is paused
UPDATE queues SET is_paused = :is_paused, run_limit = :run_limit, rate = :rate_text WHERE name = :name;

-- remove_queue: its ended jobs stay
DELETE FROM queues WHERE name = :name;

-- checking: each query finds the rows that break its rule; these queries may read whole tables

-- count_jobs: the numbers that the totals should have
SELECT queue, state, COUNT(*) FROM jobs GROUP BY queue, state;

-- count_runs: how long the history is
SELECT COUNT(*) FROM runs;

-- check_waiting: a waiting job is either in line, or waits for its time, or waits for other jobs
SELECT id, state FROM jobs
WHERE state IN ('pending', 'failed')
    AND 1 <> CASE WHEN rank IS NULL THEN 0 ELSE 1 END + CASE WHEN due_at IS NULL THEN 0 ELSE 1 END
        + CASE WHEN waits_for > 0 THEN 1 ELSE 0 END
ORDER BY seq LIMIT :most;

-- check_blocked: a job waits for as many jobs as it has dependencies that are not met
SELECT id, waits_for FROM jobs
WHERE waits_for <> (SELECT COUNT(*) FROM dependencies WHERE dependencies.seq = jobs.seq AND is_met = 0)
    AND (waits_for > 0 OR state = 'pending' AND attempts = 0 AND finished_at IS NULL AND lease = 0)
ORDER BY seq LIMIT :most;

-- check_line: a job in line is waiting, and since when is known
SELECT id, state FROM jobs
WHERE rank IS NOT NULL AND (state NOT IN ('pending', 'failed') OR since_tick IS NULL OR since_at IS NULL)
ORDER BY seq LIMIT :most;

-- check_due: a job that has a due time is waiting
SELECT id, state FROM jobs WHERE due_at IS NOT NULL AND state NOT IN ('pending', 'failed') ORDER BY seq LIMIT :most;

-- check_held: a running job has a worker
SELECT id, worker FROM jobs
WHERE state = 'processing' AND NOT EXISTS (SELECT 1 FROM workers WHERE name = jobs.worker) ORDER BY seq LIMIT :most;

-- check_runs: every run belongs to a job
SELECT number, seq FROM runs WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.seq = runs.seq) ORDER BY number LIMIT :most;

-- check_leases: a lease has one run, and no run has a lease above the job's own
SELECT jobs.id, runs.lease FROM runs JOIN jobs ON jobs.seq = runs.seq
GROUP BY jobs.seq, jobs.id, jobs.lease, runs.lease HAVING COUNT(*) > 1 OR runs.lease > jobs.lease
ORDER BY jobs.seq LIMIT :most;

-- check_environments: the environment of every job is stored
SELECT id, environment FROM jobs
WHERE environment IS NOT NULL AND NOT EXISTS (SELECT 1 FROM environments WHERE hash = jobs.environment)
ORDER BY seq LIMIT :most;

-- check_queues: the queue of every waiting job exists
SELECT id, queue FROM jobs
WHERE state IN ('pending', 'failed') AND NOT EXISTS (SELECT 1 FROM queues WHERE name = jobs.queue)
ORDER BY seq LIMIT :most;

-- check_numbers: no number is ahead of the counter that gives them
SELECT id, seq FROM jobs WHERE seq > :seq ORDER BY seq LIMIT :most;
