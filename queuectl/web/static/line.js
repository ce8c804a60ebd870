// The line: which job runs next, and why. A bar shows a job's priority, and the points that it earned by waiting.

import { actionMenu } from "./actions.js";
import { h } from "./dom.js";
import { count, number, upTo } from "./format.js";
import { live, now } from "./live.js";
import { around, card, command, empty, jobLink, jobsAddress, stateBadge, when } from "./parts.js";
import { jobTable, tags } from "./rows.js";

const SMALLEST_SCALE = 10;

export function lineView() {
  return { title: "In line", draw };
}

function draw() {
  const { line, held, later, blocked, waiting, cursors } = live.overview;
  return h(
    "div.stack",
    {},
    card(
      "In line",
      { note: rule(live.overview), key: "line" },
      legend(),
      lineList(line, line.length),
      rest(line, waiting.line, { "All pending jobs": { state: "pending" } }),
    ),
    held.length ? heldCard(held, waiting.held) : null,
    card(
      "Scheduled, or waiting for the next try",
      { key: "later" },
      later.length
        ? jobTable(later, "Jobs that wait for their time", { detail: (job) => when(job.run_at, { prefix: "due " }) })
        : empty(
            "Nothing waits for its time.",
            "To have a job start later:",
            'queuectl enqueue --delay 10m "echo later"',
          ),
      rest(later, waiting.later, {
        "The scheduled ones after these": { state: "pending", cursor: cursors.later },
        "All that wait for the next try": { state: "failed" },
      }),
    ),
    card(
      "Waiting for other jobs",
      { key: "blocked" },
      blocked.length
        ? jobTable(blocked, "Jobs that wait for other jobs")
        : empty(
            "Nothing waits for another job.",
            "To have one follow another:",
            'queuectl enqueue --after ID "echo then"',
          ),
      rest(blocked, waiting.blocked, { "Those after these": { state: "pending", cursor: cursors.blocked } }),
    ),
  );
}

/** Jobs in line in a paused queue: they are not started, and delay no other job. */
function heldCard(held, many) {
  const paused = live.overview.queues.filter((queue) => queue.paused && queue.jobs.pending + queue.jobs.failed);
  const names = paused.map(({ name }) => name);
  return card(
    "Held back",
    { key: "held", note: `${names.length === 1 ? "Queue" : "Queues"} ${names.join(", ")}: paused.` },
    jobTable(held, "Jobs in paused queues"),
    rest(held, many, Object.fromEntries(names.map((name) => [`All of queue ${name}`, { queue: name }]))),
  );
}

/** A note under a list that shows only a part: how many jobs there are, and links to the others. */
function rest(shown, many, places) {
  if (many <= shown.length) return null;
  return h(
    "p.rest",
    {},
    h("span.note", {}, `The first ${number(shown.length)} of ${upTo(many)}.`),
    Object.entries(places).map(([text, filters]) => h("a", { key: text, href: jobsAddress(filters) }, text)),
  );
}

/** The first jobs in line, at most `most`. */
export function lineList(line, most) {
  if (!line.length) {
    return empty(
      "No job is in line.",
      "A new job stays here until a worker is free:",
      'queuectl enqueue "echo hello"',
    );
  }
  const points = line.map((job) => aged(job));
  const scale = Math.max(SMALLEST_SCALE, ...line.map((job, place) => job.priority + points[place]));
  const promoted = promotedIn(line);
  const full = new Set(live.overview.queues.filter(isFull).map(({ name }) => name));
  return h(
    "ol.line",
    {},
    line.slice(0, most).map((job, place) => {
      const marks = [promoted.has(job.id) && "promoted", full.has(job.queue) && "queue full"];
      return position(job, place, points[place], scale, marks.filter(Boolean));
    }),
  );
}

const isFull = ({ limit, jobs }) => limit !== null && jobs.processing >= limit;

function position(job, place, points, scale, marks) {
  const earned = Math.floor(points);
  const share = (value) => `${((value / scale) * 100).toFixed(2)}%`;
  const text = `priority ${job.priority} + ${number(earned)} for waiting = ${number(job.priority + earned)}`;
  return h(
    "li",
    { key: job.id },
    h("span.place", { "aria-hidden": "true" }, number(place + 1)),
    h(
      "span.line-job",
      {},
      jobLink(job.id),
      job.state === "failed" ? stateBadge("failed") : null,
      marks.map((mark) => h("span.tag.mark", { key: mark }, mark)),
      tags(job),
    ),
    h(
      "span.aging",
      { role: "img", "aria-label": text, "data-tip": text },
      h("span.aging-priority", { style: { width: share(job.priority) } }),
      h("span.aging-waiting", { style: { width: share(points) } }),
    ),
    h(
      "span.sum",
      { "aria-hidden": "true" },
      `${job.priority} + ${number(earned)} = `,
      h("b", {}, number(job.priority + earned)),
    ),
    h("span.line-command", {}, command(job)),
    h("span.line-when", {}, around(job.expected_start_at)),
    actionMenu(job),
  );
}

/** A job's points for waiting at this moment: if time earns points, the bar also grows between two answers. */
function aged(job) {
  const { points_a_second: speed, now: told } = live.overview;
  return job.waiting_time + (speed ? (speed * Math.max(0, now() - Date.parse(told))) / 1000 : 0);
}

/** The promoted jobs: a job before another one with a higher sum was put there by hand. */
function promotedIn(line) {
  const found = new Set();
  let highest = 0;
  for (const job of [...line].reverse()) {
    if (job.effective_priority < highest) found.add(job.id);
    highest = Math.max(highest, job.effective_priority);
  }
  return found;
}

export const legend = () =>
  h(
    "p.legend",
    {},
    h("span", {}, h("i.swatch.swatch-priority"), "priority"),
    h("span", {}, h("i.swatch.swatch-earned"), "earned by waiting"),
  );

/** What the setting `aging` means, in a sentence. */
function rule({ aging }) {
  if (aging === "off") return "The highest priority runs next; waiting earns nothing.";
  const enqueues = /^(\d+) enqueues?$/.exec(aging);
  if (!enqueues) return `The highest sum runs next. Every ${aging} of waiting earns a point.`;
  const each =
    enqueues[1] === "1"
      ? "Every enqueue that comes after a job"
      : `Every ${count(Number(enqueues[1]), "enqueue")} that come after a job`;
  return `The highest sum runs next. ${each} ${enqueues[1] === "1" ? "earns" : "earn"} it a point.`;
}
