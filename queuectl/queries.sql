-- Every statement of the queue, for both engines: "-- name: reason", then the statement. Parameters are written :name;
-- what stands in {braces} is a list of columns, or what the engines put differently (see DIALECT in each of them).

-- the clock, settings and counters

-- meta: what is true of the whole queue
SELECT name, value FROM meta;

-- set_meta: the newest value counts
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- unset_meta: it is no longer so
DELETE FROM meta WHERE name = :name;

-- shift_times: the clock was set by :delta. What was to happen in four seconds still does, and nobody's waiting counts
-- for more or less; an appointment on the wall clock (a pending job's run_at) stays where it is
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

-- shift_rates: and so does a start that a rate holds up
UPDATE queues SET free_at = free_at + :delta;

-- settings: only those that differ from their defaults have a row; and with them whether the queue has moved, so that
-- every transaction hears of it without asking for more than it asks anyway
SELECT name, value FROM settings UNION ALL SELECT name, value FROM meta WHERE name IN ('moved_to', 'moving_from');

-- set_setting: a setting has one value
INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- unset_setting: back to the default
DELETE FROM settings WHERE name = :name;

-- clock: the tick of the aging clock, whether the settings have changed, when the next job is due, and the time
SELECT {tick}, settings, (SELECT due_at FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at, seq LIMIT 1), {now}
FROM clock;

-- settings_changed: whoever has read them reads them again
UPDATE clock SET settings = settings + 1;

-- snapshot: what is read from here on is as it is at this moment
BEGIN {snapshot};

-- counters: the newest tick, and the newest job's number
SELECT {tick}, {seq} FROM clock;

-- set_counters: go on after these
UPDATE clock SET tick = :tick, seq = :seq;

-- is_used: whether this is a queue that somebody uses
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

-- totals: every count there is
SELECT {totals} FROM totals;

-- totals_by_queue: the same, queue by queue
SELECT queue, {totals} FROM totals GROUP BY queue;

-- the line

-- add_environment: each distinct one is stored once
INSERT INTO environments (hash, variables, machine, used_at) VALUES (:hash, :variables, :machine, :used_at)
ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at;

-- environment_used: most jobs come from where one has come from before
SELECT used_at FROM environments WHERE hash = :hash;

-- latest_use: of any environment
SELECT used_at FROM environments ORDER BY used_at DESC LIMIT 1;

-- oldest_job: who came first of those that are still there
SELECT created_at FROM jobs WHERE seq > 0 ORDER BY seq LIMIT 1;

-- old_environments: whether any was last used before that, and is not to be used again
SELECT hash FROM environments
WHERE used_at < :before AND hash NOT IN (SELECT environment FROM schedules WHERE environment IS NOT NULL) LIMIT 1;

-- forget_environments: they were last used before any job came that is still there, and no schedule uses them
DELETE FROM environments
WHERE used_at < :before AND hash NOT IN (SELECT environment FROM schedules WHERE environment IS NOT NULL);

-- use_environment: a schedule does, also when nobody is there who has it
UPDATE environments SET used_at = :used_at WHERE hash = :hash;

-- environment: for the run
SELECT variables, machine FROM environments WHERE hash = :hash;

-- add: a new job; in line at once if its rank is given, else waiting for run_at
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

-- seq_of: whose id this is
SELECT seq FROM jobs WHERE id = :id;

-- owner_of_key: who waits or runs under this key
SELECT seq, id, rank, queue FROM jobs
WHERE unique_key = :unique_key AND unique_key IS NOT NULL AND state IN ('pending', 'processing', 'failed');

-- needed: a job that so many more wait for; from now on it cannot end unnoticed until the transaction ends
UPDATE jobs SET dependents = dependents + :dependents WHERE seq = :seq RETURNING state, finished_at, exit_code;

-- add_dependency: who waits for whom
INSERT INTO dependencies (seq, needs, wanted, is_met) VALUES (:seq, :needs, :wanted, :is_met);

-- let_in: a job has ended as those wanted that waited for it; who waited for nobody else enters the line, or waits for
-- its time
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

-- mark_met: what has been waited for once is not waited for again, also if it is retried
UPDATE dependencies SET is_met = 1 WHERE needs = :needs AND is_met = 0 AND wanted IN ('any', :state);

-- doomed: who wanted it to end otherwise, and so can never run
SELECT seq, id, queue, dependents FROM jobs WHERE waits_for > 0 AND seq IN (
    SELECT seq FROM dependencies WHERE needs = :needs AND is_met = 0 AND wanted NOT IN ('any', :state)
) ORDER BY seq {for_update};

-- admit: jobs whose time has come enter the line, in batches, so that a wave of them stalls nobody;
-- a job that backed off has waited all along, a scheduled one begins now
UPDATE jobs SET
    since_tick = COALESCE(since_tick, :tick),
    since_at = COALESCE(since_at, due_at),
    rank = :ticks * COALESCE(since_tick, :tick) + :millis * COALESCE(since_at, due_at) - priority * :point,
    due_at = NULL
WHERE seq IN (
    SELECT seq FROM jobs WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at, seq LIMIT :batch {skip_locked}
) AND due_at IS NOT NULL;

-- rerank: the aging rule has changed; once for every job in line, but for those that were promoted
UPDATE jobs SET rank = :ticks * since_tick + :millis * since_at - priority * :point
WHERE rank IS NOT NULL AND rank > {promoted};

-- head: the first in line of a queue
SELECT rank, seq FROM jobs WHERE queue = :queue AND rank IS NOT NULL ORDER BY rank, seq LIMIT 1;

-- behind: who stands next in a queue after this place
SELECT rank, seq FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND (rank, seq) > (:rank, :seq)
ORDER BY rank, seq LIMIT 1;

-- claim: the smallest rank of the queue is next, unless another queue's head is better (:most); from here on only who
-- holds the new lease may say anything of the job
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

-- finish: for good, and only by the worker that still holds the lease, and knows how many wait for the job
UPDATE jobs SET
    state = :state, lost = :lost, updated_at = :now, finished_at = :now, duration_seconds = :duration_seconds,
    exit_code = :exit_code, error_message = :error_message, output = :output, stderr = :stderr
WHERE seq = :seq AND lease = :lease AND state = 'processing' AND dependents = :dependents;

-- dependents: how many wait for the job; nobody else comes to wait for it until the transaction ends
SELECT dependents FROM jobs WHERE seq = :seq {for_update};

-- back_off: it will be tried again at run_at; the time it ran does not count as waiting
UPDATE jobs SET
    state = 'failed', lost = :lost, run_at = :run_at, due_at = :run_at, updated_at = :now, finished_at = :now,
    since_tick = since_tick + :tick - started_tick, since_at = since_at + :now - started_at, started_tick = NULL,
    duration_seconds = :duration_seconds, exit_code = :exit_code, error_message = :error_message,
    output = :output, stderr = :stderr
WHERE seq = :seq AND lease = :lease AND state = 'processing';

-- put_back: the run was ended or lost through no fault of the job's: in line again where it stood, with no try lost
UPDATE jobs SET
    state = 'pending', attempts = attempts - 1, lost = :lost, updated_at = :now, finished_at = NULL,
    since_tick = since_tick + :tick - started_tick, since_at = since_at + :now - started_at, started_tick = NULL,
    rank = :ticks * (since_tick + :tick - started_tick) + :millis * (since_at + :now - started_at) - priority * :point,
    duration_seconds = :duration_seconds, exit_code = :exit_code, error_message = :error_message,
    output = :output, stderr = :stderr
WHERE seq = :seq AND lease = :lease AND state = 'processing';

-- cancel_waiting: nobody has it, so it is cancelled at once
UPDATE jobs SET
    state = 'cancelled', rank = NULL, due_at = NULL, waits_for = 0, started_tick = :tick, error_message = :reason,
    updated_at = :now, finished_at = :now
WHERE seq = :seq;

-- cancel_running: its worker reads this, and the job is cancelled once its run is dead
UPDATE jobs SET cancel_reason = :reason, updated_at = :now WHERE seq = :seq;

-- add_run: the history, a row a run
INSERT INTO runs (
    seq, lease, attempt, worker, waited_seconds, started_at, finished_at, duration_seconds, outcome, exit_code, error_message
) VALUES (
    :seq, :lease, :attempt, :worker, :waited_seconds, :started_at, :now, :duration_seconds, :outcome, :exit_code,
    :error_message
);

-- retry: a job that has ended begins anew, and has waited for nothing; not while another waits or runs under its key
UPDATE jobs SET
    state = 'pending', queue = :queue, attempts = 0, lost = 0, run_at = NULL, since_tick = :tick, since_at = :now,
    started_tick = NULL, rank = :ticks * :tick + :millis * :now - priority * :point, error_message = NULL,
    cancel_reason = NULL, updated_at = :now, finished_at = NULL, begun_after = lease
WHERE seq = :seq AND state = :state AND state IN ('completed', 'dead', 'cancelled') AND NOT EXISTS (
    SELECT 1 FROM jobs AS other WHERE other.unique_key = jobs.unique_key AND other.unique_key IS NOT NULL
        AND other.state IN ('pending', 'processing', 'failed')
);

-- hold_needs: what a job waited for; from now on none of it can end unnoticed until the transaction ends
SELECT seq, id, state, (SELECT wanted FROM dependencies WHERE dependencies.seq = :seq AND needs = jobs.seq)
FROM jobs WHERE seq IN (SELECT needs FROM dependencies WHERE seq = :seq) ORDER BY seq {for_update};

-- wait_again: a job that is retried waits for what has not ended, and for nothing else that it once waited for
UPDATE dependencies SET is_met = :is_met WHERE seq = :seq AND needs = :needs;

-- block: out of the line, until so many jobs have ended
UPDATE jobs SET waits_for = :waits_for, rank = NULL, since_tick = NULL, since_at = NULL WHERE seq = :seq;

-- edit: what a user changes of a job that waits, with its place in line
UPDATE jobs SET
    command = :command, argv = :argv, priority = :priority, max_retries = :max_retries, timeout = :timeout,
    backoff_base = :backoff_base, cwd = :cwd, shell = :shell, env = :env, queue = :queue, label = :label,
    no_retry_on = :no_retry_on, jitter = :jitter, no_rerun = :no_rerun, run_at = :run_at, due_at = :due_at,
    rank = :rank, since_tick = :since_tick, since_at = :since_at, updated_at = :now
WHERE seq = :seq;

-- promote: before all others, whatever their rank; the claim uses it up
UPDATE jobs SET
    rank = :rank, since_tick = COALESCE(since_tick, :tick), since_at = COALESCE(since_at, :now), due_at = NULL,
    run_at = NULL, updated_at = :now
WHERE seq = :seq;

-- delete_runs: a job's history goes with it
DELETE FROM runs WHERE seq = :seq;

-- delete_dependencies: and what it waited for
DELETE FROM dependencies WHERE seq = :seq;

-- forget_needs: who waited for it does so no more
DELETE FROM dependencies WHERE needs = :seq;

-- delete: only while it is still what it was when the user chose it, and never under a worker's hands
DELETE FROM jobs WHERE seq = :seq AND state = :state AND state <> 'processing' RETURNING {job};

-- looking

-- job: one whole, with what it printed
SELECT {job}, output, stderr FROM jobs WHERE id = :id;

-- job_at: by its number
SELECT {job}, output, stderr FROM jobs WHERE seq = :seq;

-- glance: one without what it printed
SELECT {job} FROM jobs WHERE id = :id;

-- hold: what it is now, and stays until the transaction ends
SELECT {job} FROM jobs WHERE seq = :seq {for_update};

-- cancel_reason: asked by the worker while it runs
SELECT cancel_reason FROM jobs WHERE seq = :seq;

-- cancel_asked: the same, and from now on nobody can ask until the transaction ends
SELECT cancel_reason FROM jobs WHERE seq = :seq {for_update};

-- printed: a run's own row has it once the next run has begun
SELECT COALESCE(runs.output, jobs.output), COALESCE(runs.stderr, jobs.stderr)
FROM runs JOIN jobs ON jobs.seq = runs.seq WHERE runs.seq = :seq AND runs.lease = :lease;

-- jobs: the newest first
SELECT {job} FROM jobs WHERE seq < :before ORDER BY seq DESC LIMIT :limit;

-- jobs_in_state: the newest first; pending ones have no index of their own, which every claim would pay for
SELECT {job} FROM jobs WHERE state = :state AND state <> 'pending' AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- jobs_labelled: the newest first
SELECT {job} FROM jobs WHERE label = :label AND label IS NOT NULL AND seq < :before ORDER BY seq DESC LIMIT :limit;

-- jobs_of_queue: those of a named queue in one state, the newest first; the default one has no index of its own, which
-- every job would pay for
SELECT {job} FROM jobs WHERE queue = :queue AND queue <> 'default' AND state = :state AND seq < :before
ORDER BY seq DESC LIMIT :limit;

-- in_line: as they will run, from a place in line on
SELECT {job} FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND (rank, seq) > (:key, :seq)
ORDER BY rank, seq LIMIT :limit;

-- front: who is first in line in a queue, and what it runs, for estimates
SELECT seq, SUBSTR(command, 1, CAST(:letters AS INTEGER)), queue, rank FROM jobs
WHERE queue = :queue AND rank IS NOT NULL ORDER BY rank, seq LIMIT :limit;

-- later: who waits for its time, from a time on
SELECT {job} FROM jobs WHERE due_at IS NOT NULL AND (due_at, seq) > (:key, :seq) ORDER BY due_at, seq LIMIT :limit;

-- last_due: before this not all can have ended
SELECT due_at FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at DESC, seq DESC LIMIT 1;

-- blocked: who waits for other jobs
SELECT {job} FROM jobs WHERE waits_for > 0 AND seq > :seq ORDER BY seq LIMIT :limit;

-- completed_before: of the oldest completed jobs, those that ended before that; no more are looked at than a few
SELECT {job} FROM jobs WHERE seq IN (
    SELECT seq FROM (
        SELECT seq, finished_at FROM jobs WHERE state = 'completed' AND state <> 'pending' ORDER BY seq LIMIT :looked_at
    ) AS oldest WHERE finished_at <= :before LIMIT :most
);

-- newest: the job that was added last
SELECT id FROM jobs WHERE seq > 0 ORDER BY seq DESC LIMIT 1;

-- glance_at: by its number
SELECT {job} FROM jobs WHERE seq = :seq;

-- needs_of: what a job waits for, or has waited for
SELECT jobs.id, jobs.state, dependencies.wanted, dependencies.is_met
FROM dependencies JOIN jobs ON jobs.seq = dependencies.needs WHERE dependencies.seq = :seq
ORDER BY dependencies.needs LIMIT :limit;

-- would_go: who can never run once this job is cancelled
SELECT seq, dependents FROM jobs WHERE waits_for > 0 AND seq IN (
    SELECT seq FROM dependencies WHERE needs = :seq AND is_met = 0 AND wanted NOT IN ('any', 'cancelled')
) ORDER BY seq LIMIT :limit;

-- stay_cancelled: who waited for it, was cancelled, and is not retried with it
SELECT jobs.seq, jobs.dependents FROM dependencies JOIN jobs ON jobs.seq = dependencies.seq
WHERE dependencies.needs = :seq AND dependencies.wanted <> 'any' AND jobs.state = 'cancelled'
ORDER BY dependencies.seq LIMIT :limit;

-- tied_to: the numbers of those that wait for it, or have waited
SELECT seq FROM dependencies WHERE needs = :seq;

-- dependents_of: what waits for it, or has waited
SELECT jobs.id, jobs.state, dependencies.wanted, dependencies.is_met
FROM dependencies JOIN jobs ON jobs.seq = dependencies.seq WHERE dependencies.needs = :seq
ORDER BY dependencies.seq LIMIT :limit;

-- runs_of: every try of a job
SELECT lease, attempt, worker, started_at, finished_at, duration_seconds, outcome, exit_code, error_message
FROM runs WHERE seq = :seq ORDER BY lease;

-- ahead: how many stand before this place in a queue's line, counted no further than it is shown
SELECT COUNT(*) FROM (
    SELECT 1 FROM jobs WHERE queue = :queue AND rank IS NOT NULL AND (rank, seq) < (:rank, :seq)
    ORDER BY rank, seq LIMIT :most
) AS before;

-- counted_waiting: how many wait for their time, and how many for other jobs, counted no further than it is shown
SELECT (
    SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at, seq LIMIT :most) AS later
), (
    SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE waits_for > 0 ORDER BY seq LIMIT :most) AS blocked
);

-- ids_near: the ids that stand beside this one in the alphabet, in case it was misspelt
SELECT id FROM (SELECT id FROM jobs WHERE id >= :id ORDER BY id LIMIT 50) AS after
UNION ALL
SELECT id FROM (SELECT id FROM jobs WHERE id < :id ORDER BY id DESC LIMIT 50) AS before;

-- newest_ids: what a user is most likely to have meant
SELECT id FROM jobs ORDER BY seq DESC LIMIT 100;

-- newest_runs: what the percentiles, the rate and the estimates are taken over
SELECT (SELECT id FROM jobs WHERE jobs.seq = runs.seq),
    worker, started_at, finished_at, duration_seconds, waited_seconds, outcome,
    (SELECT SUBSTR(command, 1, CAST(:letters AS INTEGER)) FROM jobs WHERE jobs.seq = runs.seq),
    (SELECT queue FROM jobs WHERE jobs.seq = runs.seq)
FROM runs ORDER BY number DESC LIMIT :limit;

-- long_runs: those of the newest runs that took so long
SELECT (SELECT id FROM jobs WHERE jobs.seq = newest.seq),
    worker, started_at, finished_at, duration_seconds, waited_seconds, outcome,
    (SELECT SUBSTR(command, 1, CAST(:letters AS INTEGER)) FROM jobs WHERE jobs.seq = newest.seq),
    (SELECT queue FROM jobs WHERE jobs.seq = newest.seq)
FROM (
    SELECT seq, worker, started_at, finished_at, duration_seconds, waited_seconds, outcome
    FROM runs ORDER BY number DESC LIMIT :looked_at
) AS newest WHERE duration_seconds >= :least_seconds LIMIT :limit;

-- newest_run_jobs: whose runs ended last
SELECT seq FROM runs ORDER BY number DESC LIMIT :limit;

-- figures, for who watches

-- newest_run: up to here everything has happened
SELECT number FROM runs ORDER BY number DESC LIMIT 1;

-- runs_after: what has ended since, and in which queue
SELECT number, (SELECT queue FROM jobs WHERE jobs.seq = runs.seq), duration_seconds, waited_seconds
FROM runs WHERE number > :number ORDER BY number LIMIT :limit;

-- oldest_in_line: since when the first ones wait; who has waited for long stands among them
SELECT MIN(since_at) FROM (
    SELECT since_at FROM jobs WHERE queue = :queue AND rank IS NOT NULL ORDER BY rank, seq LIMIT :limit
) AS first;

-- samples, for the charts

-- sampled: whether somebody was there before us in this minute
SELECT minute FROM samples WHERE minute = :minute;

-- add_sample: how the queue stands as this minute begins; the first one to say it is right
INSERT INTO samples (minute, completed, failed, dead, waiting, running)
SELECT CAST(:minute AS BIGINT), CAST(SUM(event_completed) AS BIGINT), CAST(SUM(event_failed) AS BIGINT),
    CAST(SUM(event_dead) AS BIGINT), CAST(SUM(pending + failed) AS BIGINT), CAST(SUM(processing) AS BIGINT)
FROM totals WHERE TRUE ON CONFLICT (minute) DO NOTHING;

-- forget_samples: nobody is shown what is older; and where the clock was set back, what is to come is not known yet
DELETE FROM samples WHERE minute < :oldest OR minute > :newest;

-- samples: minute by minute
SELECT minute, completed, failed, dead, waiting, running FROM samples
WHERE minute BETWEEN :first AND :last ORDER BY minute;

-- workers

-- add_worker: here I am
INSERT INTO workers (name, pid, start_time, boot_id, pid_space, host, started_at, heartbeat_at, processed, queues)
VALUES (:name, :pid, :start_time, :boot_id, :pid_space, :host, :started_at, :heartbeat_at, 0, :queues);

-- heartbeat: I live, and this is what I have done
UPDATE workers SET heartbeat_at = :now, processed = :processed WHERE name = :name;

-- workers: all of them, oldest first
SELECT name, pid, start_time, boot_id, pid_space, host, started_at, heartbeat_at, processed, stop_grace, queues
FROM workers ORDER BY started_at, name;

-- stop_grace: whether this worker was asked to stop
SELECT stop_grace FROM workers WHERE name = :name;

-- ask_to_stop: workers read it here, so that no signal is needed
UPDATE workers SET stop_grace = :stop_grace WHERE name = :name;

-- mark_idle: whoever hands in a job may wake it
UPDATE workers SET idle = :idle WHERE name = :name;

-- remove_worker: it is gone
DELETE FROM workers WHERE name = :name;

-- heard_at: when a worker last said that it lives; it says nothing more until the transaction ends
SELECT heartbeat_at FROM workers WHERE name = :name {for_update};

-- remove_dead: it is gone, if nothing was heard of it since it was taken for dead
DELETE FROM workers WHERE name = :name AND heartbeat_at = :heartbeat_at;

-- held_by: what a worker has in hand
SELECT {job} FROM jobs WHERE state = 'processing' AND state <> 'pending' AND worker = :worker;

-- orphans: in hand of a worker that the queue does not know
SELECT {job} FROM jobs
WHERE state = 'processing' AND state <> 'pending' AND NOT EXISTS (SELECT 1 FROM workers WHERE name = jobs.worker);

-- recurring jobs

-- schedules: all of them
SELECT {schedule} FROM schedules ORDER BY name;

-- schedule_fields: what the jobs of each were given
SELECT name, fields FROM schedules ORDER BY name;

-- schedule: one of them
SELECT {schedule} FROM schedules WHERE name = :name;

-- hold_schedule: whoever finds its occurrence still to be taken has it, and nobody else until the transaction ends
SELECT {schedule} FROM schedules WHERE name = :name {for_update};

-- next_schedules: what comes next
SELECT {schedule} FROM schedules WHERE is_paused = 0 ORDER BY next_at LIMIT :limit;

-- next_occurrence: when a worker has to look again
SELECT next_at FROM schedules WHERE is_paused = 0 ORDER BY next_at LIMIT 1;

-- due_schedules: those whose time has come
SELECT {schedule} FROM schedules WHERE is_paused = 0 AND next_at <= :now ORDER BY next_at LIMIT 100;

-- add_schedule: a name has one schedule
INSERT INTO schedules (
    name, cron, every_seconds, tz, fields, command, cwd, environment, missed, may_overlap, is_paused, created_at, next_at
) VALUES (
    :name, :cron, :every_seconds, :tz, :fields, :command, :cwd, :environment, :missed, :may_overlap, :is_paused, :created_at,
    :next_at
) ON CONFLICT (name) DO NOTHING;

-- move_schedule: what comes of it, and when it comes next
UPDATE schedules SET
    is_paused = :is_paused, next_at = :next_at, last_at = :last_at, last_seq = :last_seq, note = :note
WHERE name = :name;

-- shift_schedules: the clock was set by :delta. What comes every so often goes on as if it was not; a cron time is an
-- appointment on the wall clock, and stays where it is
UPDATE schedules SET next_at = next_at + :delta WHERE every_seconds IS NOT NULL;

-- remove_schedule: the jobs that came of it stay
DELETE FROM schedules WHERE name = :name;

-- named queues

-- queues: all of them
SELECT name, is_paused, run_limit, rate FROM queues WHERE name <> '*' ORDER BY name;

-- running: how many of a queue's jobs run now; there are no more than workers
SELECT COUNT(*) FROM jobs WHERE state = 'processing' AND state <> 'pending' AND queue = :queue;

-- mark: what is locked from here on can be let go
SAVEPOINT held;

-- let_go: it is as if it had not been locked
ROLLBACK TO SAVEPOINT held;

-- hold_queue: nobody else starts a job in it until the transaction ends, or lets it go
SELECT name FROM queues WHERE name = :name {for_update};

-- free_at: when, at the even pace of its rate, the next start comes
SELECT free_at FROM queues WHERE name = :name;

-- set_free_at: a job was started
UPDATE queues SET free_at = :free_at WHERE name = :name;

-- add_queue: a name has one queue
INSERT INTO queues (name, is_paused, run_limit, rate, free_at) VALUES (:name, :is_paused, :run_limit, :rate_text, 0)
ON CONFLICT (name) DO NOTHING;

-- add_totals: its counters; those of a queue of this name that there was before go on
INSERT INTO totals (
    queue, shard, pending, processing, completed, failed, dead, cancelled, event_enqueued, event_started, event_completed,
    event_failed, event_dead, event_cancelled
) VALUES (:queue, :shard, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) ON CONFLICT (queue, shard) DO NOTHING;

-- set_queue: its limits, and whether it is paused
UPDATE queues SET is_paused = :is_paused, run_limit = :run_limit, rate = :rate_text WHERE name = :name;

-- remove_queue: what has ended in it stays
DELETE FROM queues WHERE name = :name;

-- checking: these may read everything

-- count_jobs: what the totals should say
SELECT queue, state, COUNT(*) FROM jobs GROUP BY queue, state;

-- count_runs: how long the history is
SELECT COUNT(*) FROM runs;

-- check_waiting: who waits is in line, or waits for its time, or for others, and one of them only
SELECT id, state FROM jobs
WHERE state IN ('pending', 'failed')
    AND 1 <> CASE WHEN rank IS NULL THEN 0 ELSE 1 END + CASE WHEN due_at IS NULL THEN 0 ELSE 1 END
        + CASE WHEN waits_for > 0 THEN 1 ELSE 0 END
ORDER BY seq LIMIT :most;

-- check_blocked: who waits for others waits for as many as have not ended as it wants
SELECT id, waits_for FROM jobs
WHERE waits_for <> (SELECT COUNT(*) FROM dependencies WHERE dependencies.seq = jobs.seq AND is_met = 0)
    AND (waits_for > 0 OR state = 'pending' AND attempts = 0 AND finished_at IS NULL AND lease = 0)
ORDER BY seq LIMIT :most;

-- check_line: who is in line waits, and since when is known
SELECT id, state FROM jobs
WHERE rank IS NOT NULL AND (state NOT IN ('pending', 'failed') OR since_tick IS NULL OR since_at IS NULL)
ORDER BY seq LIMIT :most;

-- check_due: who waits for its time waits
SELECT id, state FROM jobs WHERE due_at IS NOT NULL AND state NOT IN ('pending', 'failed') ORDER BY seq LIMIT :most;

-- check_held: who runs has a worker
SELECT id, worker FROM jobs
WHERE state = 'processing' AND NOT EXISTS (SELECT 1 FROM workers WHERE name = jobs.worker) ORDER BY seq LIMIT :most;

-- check_runs: a run is of a job
SELECT number, seq FROM runs WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.seq = runs.seq) ORDER BY number LIMIT :most;

-- check_leases: a lease is given once, and none after the newest
SELECT jobs.id, runs.lease FROM runs JOIN jobs ON jobs.seq = runs.seq
GROUP BY jobs.seq, jobs.id, jobs.lease, runs.lease HAVING COUNT(*) > 1 OR runs.lease > jobs.lease
ORDER BY jobs.seq LIMIT :most;

-- check_environments: what a job runs with is there
SELECT id, environment FROM jobs
WHERE environment IS NOT NULL AND NOT EXISTS (SELECT 1 FROM environments WHERE hash = jobs.environment)
ORDER BY seq LIMIT :most;

-- check_queues: who waits stands in a queue that there is
SELECT id, queue FROM jobs
WHERE state IN ('pending', 'failed') AND NOT EXISTS (SELECT 1 FROM queues WHERE name = jobs.queue)
ORDER BY seq LIMIT :most;

-- check_numbers: no number is ahead of the counter that gives them
SELECT id, seq FROM jobs WHERE seq > :seq ORDER BY seq LIMIT :most;
