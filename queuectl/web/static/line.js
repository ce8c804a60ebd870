// The line: who runs next, and why there. A bar is the priority that a job was given, and what waiting has earned it.

import { actionMenu } from "./actions.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";
import { live, now } from "./live.js";
import { around, card, command, empty, jobLink, stateBadge, when } from "./parts.js";
import { jobTable, tags } from "./rows.js";

const SMALLEST_SCALE = 10;

export function lineView() {
  return { title: "In line", draw };
}

function draw() {
  const { line, later, blocked } = live.overview;
  return h(
    "div.stack",
    {},
    card("In line", { note: rule(live.overview), key: "line" }, legend(), lineList(line, line.length)),
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
    ),
  );
}

/** The first so many in line. */
export function lineList(line, most) {
  if (!line.length) {
    return empty(
      "Nobody is in line.",
      "Whatever you hand in stands here until a worker is free:",
      'queuectl enqueue "echo hello"',
    );
  }
  const points = line.map((job) => aged(job));
  const scale = Math.max(SMALLEST_SCALE, ...line.map((job, place) => job.priority + points[place]));
  const promoted = promotedIn(line);
  return h(
    "ol.line",
    {},
    line.slice(0, most).map((job, place) => position(job, place, points[place], scale, promoted.has(job.id))),
  );
}

function position(job, place, points, scale, isPromoted) {
  const earned = Math.floor(points);
  const share = (value) => `${((value / scale) * 100).toFixed(2)}%`;
  const text = `priority ${job.priority} + ${number(earned)} for waiting = ${number(job.priority + earned)}`;
  return h(
    "li",
    { key: job.id },
    h("span.place", { "aria-hidden": "true" }, number(place + 1)),
    h("span.line-job", {}, jobLink(job.id), job.state === "failed" ? stateBadge("failed") : null, tags(job)),
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
    h("span.line-when", {}, isPromoted ? h("span.tag.label", {}, "promoted") : null, around(job.expected_start_at)),
    actionMenu(job),
  );
}

/** Points of waiting at this moment: where time earns them the bar grows by itself between two answers. */
function aged(job) {
  const { points_a_second: speed, now: told } = live.overview;
  return job.waiting_time + (speed ? (speed * Math.max(0, now() - Date.parse(told))) / 1000 : 0);
}

/** Whoever stands before somebody with a higher sum was put there by hand. */
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
