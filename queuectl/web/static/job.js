// A job's page: what it is, why it has not run, every try with its output, what it waits for and what waits for it.

import { ACTIONS, actOn, possible } from "./actions.js";
import { get, jobPath } from "./api.js";
import { h } from "./dom.js";
import { absolute, commandLine, count, duration, number } from "./format.js";
import { live, oneAtATime } from "./live.js";
import { outputOf } from "./output.js";
import {
  around,
  button,
  card,
  failure,
  jobLink,
  jobsAddress,
  loading,
  since,
  stateBadge,
  tries,
  typed,
  when,
} from "./parts.js";
import { go } from "./router.js";

export function jobView({ path: [, id] }, redraw) {
  const known = { job: null, why: [], error: null, isPicked: false };
  const output = outputOf(id, redraw);

  const load = oneAtATime(async () => {
    try {
      const job = await get(jobPath(id), { output: 0 });
      if (!hasEnded(job) || job.updated_at !== known.job?.updated_at) {
        known.why = (await get(`${jobPath(id)}/why`)).sentences;
      }
      Object.assign(known, { job, error: null });
      if (job.lease && !known.isPicked) output.look(job.lease);
      await output.load();
    } catch (error) {
      known.error = error;
    }
    redraw();
  });

  function beat() {
    if (known.job?.state === "processing") load();
  }

  function pick(lease) {
    known.isPicked = lease !== known.job.lease;
    output.look(lease);
    output.load();
    redraw();
  }

  function draw() {
    const { job, error, why } = known;
    if (!job) return error ? missing(id, error) : loading();
    return h(
      "div.stack",
      {},
      error ? failure(error) : null,
      head(job),
      h(
        "div.columns.wide-left",
        {},
        h(
          "div.stack",
          {},
          whyCard(job, why),
          triesCard(job, output.lease(), pick),
          job.runs.length || job.state === "processing" ? card("Output", { key: "output" }, output.draw()) : null,
        ),
        h(
          "div.stack",
          {},
          factsCard(job),
          linksCard("Waits for", job.needs, "needs"),
          linksCard("What waits for it", job.dependents, "dependents"),
        ),
      ),
    );
  }

  return { title: `Job ${id}`, load, beat, draw };
}

const hasEnded = ({ state }) => ["completed", "dead", "cancelled"].includes(state);

function missing(id, error) {
  return h(
    "div.empty",
    {},
    h("p.empty-title", { role: "alert" }, error.message),
    h("p", {}, h("a", { href: jobsAddress({ match: id }) }, `Look for “${id}” in all commands`)),
  );
}

function head(job) {
  const act = async (name) => {
    if ((await actOn(job, name)) && name === "delete") go("#/jobs");
  };
  const buttons = possible(job.state).map((name) => {
    const { label, icon, isGentle } = ACTIONS[name];
    return h(
      "span",
      { key: name },
      button(label, () => act(name), { name: icon, kind: isGentle ? "plain" : "quiet-danger" }),
    );
  });
  return h(
    "header.job-head",
    {},
    h(
      "div.job-title",
      {},
      stateBadge(job.state),
      h("span.job-reason", {}, job.error_message ?? ""),
      h("div.tools", {}, buttons),
    ),
    typed(commandLine(job.command)),
  );
}

function whyCard(job, sentences) {
  const over = job.started_at ? "Why it ran then" : "Why it did not run";
  const title = { pending: "Why it waits", failed: "Why it waits", processing: "Why it runs" }[job.state] ?? over;
  return card(
    title,
    { key: "why" },
    h(
      "ul.why",
      {},
      sentences.map((text) => h("li", { key: text }, text)),
    ),
  );
}

/** Every try, numbered over the whole life of the job. */
function triesCard(job, shown, pick) {
  const running =
    job.state === "processing"
      ? [{ ...job, attempt: job.attempts, outcome: "processing", error_message: null }]
      : [];
  const runs = [...job.runs, ...running];
  if (!runs.length) return null;
  return card(
    "Tries",
    {
      key: "tries",
      note: `${tries(job)} · ${job.max_retries ? count(job.max_retries, "retry", "retries") : "no retries"} allowed`,
    },
    h(
      "ol.tries",
      {},
      runs.map((run) => tryRow(run, run.lease === shown, () => pick(run.lease))),
    ),
  );
}

const OUTCOMES = { released: "pending", lost: "failed" };

function tryRow(run, isShown, pick) {
  const took = run.finished_at ? `took ${duration(run.duration_seconds)}` : `for ${since(run.started_at)}`;
  return h(
    "li",
    { key: run.lease, class: isShown ? "is-shown" : "" },
    h(
      "button.link",
      {
        type: "button",
        "aria-label": `Show the output of try ${run.lease}`,
        "aria-pressed": String(isShown),
        on: { click: pick },
      },
      `Try ${number(run.lease)}`,
    ),
    OUTCOMES[run.outcome] ? h(`span.state.state-${OUTCOMES[run.outcome]}`, {}, run.outcome) : stateBadge(run.outcome),
    h("span.reason", {}, run.error_message ?? ""),
    h("span.timing", {}, when(run.started_at), ` · ${took} · ${run.worker ?? ""}`),
  );
}

function factsCard(job) {
  const facts = [
    ["Priority", `${job.priority} + ${number(job.waiting_time)} for waiting = ${number(job.effective_priority)}`],
    ["Queue", h("a", { href: jobsAddress({ queue: job.queue }) }, job.queue)],
    ["Label", job.label && h("a", { href: jobsAddress({ label: job.label }) }, job.label)],
    ["Created", moment(job.created_at)],
    ["Not before", moment(job.run_at)],
    ["Starts", around(job.expected_start_at)],
    ["Started", moment(job.started_at)],
    ["Ends", around(job.expected_end_at)],
    ["Ended", moment(job.finished_at)],
    ["Took", job.duration_seconds === null ? null : duration(job.duration_seconds)],
    ["Exit code", job.exit_code === null ? null : String(job.exit_code)],
    ["Worker", worker(job)],
    ["Time limit", job.timeout ? duration(job.timeout) : "none"],
    ["After a failure", backoff(job)],
    ["Not retried on", job.no_retry_on.length ? `exit code ${job.no_retry_on.join(", ")}` : null],
    ["Never started twice", job.no_rerun ? "yes" : null],
    ["Directory", h("code", {}, job.cwd)],
    ["Shell", job.shell],
    ["Unique key", job.unique],
  ];
  return card(
    "Facts",
    {},
    h(
      "dl.facts",
      {},
      facts
        .filter(([, value]) => value)
        .map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
    ),
  );
}

function worker(job) {
  if (!job.worker) return null;
  const isHere = live.overview.workers.some(({ name }) => name === job.worker);
  return isHere ? h("a", { href: "#/workers" }, job.worker) : job.worker;
}

/** `waits 2, 4, 8 s …`: the waits after the first failures. */
function backoff({ max_retries: retries, backoff_base: base }) {
  if (!retries) return "not tried again";
  const waits = [1, 2, 3].slice(0, retries).map((failures) => number(Math.round(base ** failures)));
  return `waits ${waits.join(", ")} s${retries > waits.length ? " …" : ""}`;
}

const moment = (iso) =>
  iso && h("span", {}, absolute(new Date(iso)).replace(/ \(.*/, ""), h("span.note", {}, " ", when(iso)));

const WANTED = { any: "however it ends", dead: "only if it dies", completed: "" };

function linksCard(title, links, key) {
  if (!links.length) return null;
  return card(
    title,
    { key },
    h(
      "ul.links",
      {},
      links.map((link) =>
        h(
          "li",
          { key: link.id },
          stateBadge(link.state),
          jobLink(link.id),
          h("span.note", {}, link.is_met ? "met" : WANTED[link.wanted]),
        ),
      ),
    ),
  );
}
