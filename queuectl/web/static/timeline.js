// What each worker ran in the last minutes: a bar a run, as long as it took, in the colour of how it ended.

import { h } from "./dom.js";
import { clock, commandLine, duration, minuteOf, oneLine, roughly } from "./format.js";
import { now } from "./live.js";
import { jobAddress } from "./parts.js";

const MARKS = 4;
const LONGEST_COMMAND = 80;

/** The timeline of so many minutes until now; it moves on by itself between two answers. */
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
    workers.map((worker) => row(worker, from, to)),
    h("div.timeline-scale", { "aria-hidden": "true" }, scale),
  );
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

/** Only the newest of a worker is on the way of the Tab key; the arrow keys lead to the others. */
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
  const bar = event.target.closest(".track li");
  if (!step || !bar) return;
  event.preventDefault();
  bar[step]?.firstElementChild.focus();
}
