// What each worker ran in the last minutes: one bar per run, as long as the run took, in the colour of its outcome.

import { h } from "./dom.js";
import { clock, commandLine, count, duration, minuteOf, oneLine, roughly } from "./format.js";
import { live, now } from "./live.js";
import { jobAddress } from "./parts.js";

const MARKS = 4;
const MOST_WORKERS = 12;
const LONGEST_COMMAND = 80;

/** The timeline of the last minutes; it also moves on between two answers. */
export function timeline({ workers, minutes }) {
  const to = now();
  const from = to - minutes * 60_000;
  const scale = [...Array(MARKS).keys()].map((number) => {
    const moment = from + ((to - from) * number) / (MARKS - 1);
    return h("span", { key: number }, number === MARKS - 1 ? "now" : minuteOf(new Date(moment)));
  });
  return h(
    "div.timeline",
    { on: { keydown: walk } },
    ordered(workers).map((worker) => row(worker, from, to)),
    workers.length > MOST_WORKERS
      ? h("p.note", {}, `and ${count(workers.length - MOST_WORKERS, "other worker")}`)
      : null,
    h("div.timeline-scale", { "aria-hidden": "true" }, scale),
  );
}

/** Living workers first, by name, so that no row changes its place; then ended ones, by the end of their last run. */
function ordered(workers) {
  const living = new Set(live.overview.workers.map(({ name }) => name));
  const last = ({ runs }) => runs.at(-1)?.finished_at ?? "";
  const byName = (one, other) => one.name.localeCompare(other.name);
  const byEnd = (one, other) => last(other).localeCompare(last(one));
  return [
    ...workers.filter(({ name }) => living.has(name)).sort(byName),
    ...workers.filter(({ name }) => !living.has(name)).sort(byEnd),
  ].slice(0, MOST_WORKERS);
}

function row({ name, runs }, from, to) {
  const shown = runs.filter((run) => !run.finished_at || Date.parse(run.finished_at) > from);
  const newest = shown.at(-1);
  return h(
    "div.timeline-row",
    { key: name },
    h("span.timeline-name", { title: name }, name),
    h(
      "ul.track",
      { "aria-label": `What worker ${name} ran, the oldest first` },
      shown.map((run) => bar(run, from, to, run === newest)),
    ),
  );
}

/** The Tab key reaches only the newest bar of a worker; the arrow keys lead to the others. */
function bar(run, from, to, isNewest) {
  const start = Math.max(from, Date.parse(run.started_at));
  const end = run.finished_at ? Date.parse(run.finished_at) : to;
  const left = ((start - from) / (to - from)) * 100;
  const text = told(run, to);
  return h(
    "li",
    {
      key: `${run.job} ${run.started_at}`,
      style: { left: `${left.toFixed(3)}%`, width: `${Math.max(0, ((end - start) / (to - from)) * 100).toFixed(3)}%` },
    },
    h("a", {
      href: jobAddress(run.job),
      class: `fill-${run.finished_at ? run.outcome : "processing"}`,
      "aria-label": text.replaceAll("\n", ", "),
      "data-tip": text,
      tabindex: isNewest ? 0 : -1,
    }),
  );
}

function told(run, at) {
  const command = oneLine(commandLine(run.command));
  const short = command.length > LONGEST_COMMAND ? `${command.slice(0, LONGEST_COMMAND)}…` : command;
  const started = new Date(run.started_at);
  const took = run.finished_at
    ? `${run.outcome}, took ${duration((Date.parse(run.finished_at) - started) / 1000)}`
    : `running for ${roughly((at - started) / 1000)}`;
  return `${run.job}: ${short}\n${took}, started ${clock(started, at)}`;
}

function walk(event) {
  const step = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  const from = event.target.closest(".track li");
  if (!step || !from) return;
  event.preventDefault();
  from[step]?.firstElementChild.focus();
}
