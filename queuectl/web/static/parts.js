// The small parts that every view is made of: states, times, links to jobs, things to type, lists that are empty.

import { h } from "./dom.js";
import { absolute, clock, commandLine, distance, duration, number, oneLine, roughly } from "./format.js";
import { icon } from "./icons.js";
import { now } from "./live.js";
import { announce } from "./notices.js";

export const STATES = ["pending", "processing", "completed", "failed", "dead", "cancelled"];

export const stateBadge = (state) => h(`span.state.state-${state}`, {}, icon(state), h("span", {}, state));

export const jobAddress = (id) => `#/job/${encodeURIComponent(id)}`;

export const jobLink = (id) => h("a.job-id", { href: jobAddress(id) }, id);

export const jobsAddress = (filters) => `#/jobs?${new URLSearchParams(filters)}`;

export const command = (job) =>
  h("code.command", { title: commandLine(job.command) }, oneLine(commandLine(job.command)));

/** A moment as its distance from now; the whole of it where the pointer rests. */
export function when(iso, { prefix = "" } = {}) {
  if (!iso) return null;
  const moment = new Date(iso);
  return h("time", { datetime: iso, title: absolute(moment) }, `${prefix}${distance(moment, now())}`);
}

/** A moment that is only estimated, as a time of day. */
export function around(iso, prefix = "") {
  if (!iso) return null;
  const moment = new Date(iso);
  const title = `${absolute(moment)}, going by recent run times`;
  return h("time.estimate", { datetime: iso, title }, `${prefix}~${clock(moment, now())}`);
}

/** How long something has been going on. */
export const since = (iso) => roughly((now() - Date.parse(iso)) / 1000);

export const tries = (job) => `${number(job.attempts)}/${number(job.max_retries + 1)}`;

/** What is to be said of a job's times, by its state: since when, from when, or when it ended and how long it took. */
export function timing(job) {
  if (job.state === "processing") {
    return h("span.timing", {}, `for ${since(job.started_at)}`, around(job.expected_end_at, " · ends "));
  }
  if (job.state === "pending" || job.state === "failed") return h("span.timing", {}, waiting(job));
  const took = job.started_at && job.duration_seconds !== null ? ` · took ${duration(job.duration_seconds)}` : "";
  return h("span.timing", {}, when(job.finished_at), took);
}

function waiting(job) {
  if (job.waits_for) return job.waits_for === 1 ? "waits for 1 job" : `waits for ${number(job.waits_for)} jobs`;
  if (job.run_at && Date.parse(job.run_at) > now()) return when(job.run_at, { prefix: "due " });
  return job.expected_start_at ? around(job.expected_start_at, "starts ") : when(job.created_at, { prefix: "came " });
}

/** A card with a heading, and on the right of it what can be done. */
export function card(title, { note, tools, key } = {}, ...content) {
  const id = `card-${(key ?? title).toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  return h(
    "section.card",
    { key: key ?? title, "aria-labelledby": id },
    h("header.card-head", {}, h("h2", { id }, title), h("p.note", {}, note), h("div.tools", {}, tools)),
    content,
  );
}

/** Nothing to see, and what to type for there to be something. */
export function empty(title, text, ...lines) {
  return h("div.empty", {}, h("p.empty-title", {}, title), h("p", {}, text), lines.map(typed));
}

/** A command line to take along. Over plain HTTP from another machine the browser lets nobody copy. */
export function typed(line) {
  const copy = async () => {
    await navigator.clipboard.writeText(line);
    announce("Copied.");
  };
  const props = { type: "button", "aria-label": `Copy: ${line}`, title: "Copy", on: { click: copy } };
  return h(
    "div.typed",
    {},
    h("code", {}, line),
    navigator.clipboard ? h("button.icon-button", props, icon("copy")) : null,
  );
}

export function button(label, action, { name, kind = "plain", title, disabled = false, label: spoken } = {}) {
  const props = { type: "button", title, disabled, "aria-label": spoken, on: { click: action } };
  return h(`button.button.${kind}`, props, name ? icon(name) : null, h("span", {}, label));
}

/** How much of the whole it is, as a bar. */
export function level(value, most, label) {
  const width = `${most ? Math.min(100, (value / most) * 100) : 0}%`;
  return h("span.level", { role: "img", "aria-label": label }, h("span", { style: { width } }));
}

/** One out of a few, as links side by side. */
export function choices(label, options, chosen) {
  return h(
    "nav.choices",
    { "aria-label": label },
    options.map(([value, text, address, more]) =>
      h("a", { key: value, href: address, "aria-current": value === chosen ? "true" : null }, text, more),
    ),
  );
}

export const loading = () => h("p.loading", { role: "status" }, "Loading …");

export const failure = (error) => h("p.failure", { role: "alert" }, error.message);
