// The small parts of which views are made: states, times, links to jobs, command lines to copy, empty lists.

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

/** A time as its distance from now; the full time is in the tooltip. */
export function when(iso, { prefix = "" } = {}) {
  if (!iso) return null;
  const moment = new Date(iso);
  return h("time", { datetime: iso, title: absolute(moment) }, `${prefix}${distance(moment, now())}`);
}

/** An estimated time, as a time of day. */
export function around(iso, prefix = "") {
  if (!iso) return null;
  const moment = new Date(iso);
  const title = `${absolute(moment)}, going by recent run times`;
  return h("time.estimate", { datetime: iso, title }, `${prefix}~${clock(moment, now())}`);
}

/** How long something has been going on. */
export const since = (iso) => roughly((now() - Date.parse(iso)) / 1000);

export const tries = (job) => `${number(job.attempts)}/${number(job.max_retries + 1)}`;

/** A job's times, by its state: how long it has run, when it starts, or when it ended and how long it took. */
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

/** A card with a heading, and on the right of it the buttons. */
export function card(title, { note, tools, key } = {}, ...content) {
  const id = `card-${(key ?? title).toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  return h(
    "section.card",
    { key: key ?? title, "aria-labelledby": id },
    h("header.card-head", {}, h("h2", { id }, title), h("p.note", {}, note), h("div.tools", {}, tools)),
    content,
  );
}

/** A note that there is nothing to show, and the commands that would change that. */
export function empty(title, text, ...lines) {
  return h("div.empty", {}, h("p.empty-title", {}, title), h("p", {}, text), lines.map(typed));
}

/** A command line to copy. Over plain HTTP from another machine, browsers offer no clipboard. */
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

/** A share of the whole, as a bar. */
export function level(value, most, label) {
  const width = `${most ? Math.min(100, (value / most) * 100) : 0}%`;
  return h("span.level", { role: "img", "aria-label": label }, h("span", { style: { width } }));
}

/** A choice of one out of a few, as links side by side. */
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
