// The workers: whether they live, their current jobs, what they use, and what they ran in the last minutes.

import { get } from "./api.js";
import { h } from "./dom.js";
import { bytes, clock, number, roughly } from "./format.js";
import { live, now, oneAtATime } from "./live.js";
import { around, card, command, empty, failure, jobLink, level, loading, since, when } from "./parts.js";
import { timeline } from "./timeline.js";

const MINUTES = 15;

export function workersView(_, redraw) {
  const past = pastOfWorkers(redraw);
  return { title: "Workers", load: past.load, draw: () => h("div.stack", {}, list(), past.draw()) };
}

/** The timeline as a card; it is loaded when something has changed. */
export function pastOfWorkers(redraw) {
  const known = { workers: null, error: null };
  const load = oneAtATime(async () => {
    try {
      Object.assign(known, await get("/api/timeline", { minutes: MINUTES }), { error: null });
    } catch (error) {
      known.error = error;
    }
    redraw();
  });
  const content = () => {
    if (known.error) return failure(known.error);
    if (!known.workers) return loading();
    return known.workers.length
      ? timeline({ workers: known.workers, minutes: MINUTES })
      : empty(`Nothing ran in the last ${MINUTES} minutes.`, "What workers run is drawn here, a bar a job.");
  };
  const note = () => {
    const isCut = known.complete_from > known.from;
    const cut = isCut ? `; of what ended before ${clock(new Date(known.complete_from), now())} the long runs only` : "";
    return `the last ${MINUTES} minutes${cut}`;
  };
  return { load, draw: () => card("What ran", { key: "timeline", note: note() }, content()) };
}

function list() {
  const { workers } = live.overview;
  if (!workers.length) return noWorker();
  return h("ul.workers", {}, workers.map(one));
}

export function noWorker() {
  return empty("No worker is running.", "Jobs wait until there is one. Start two:", "queuectl worker start --count 2");
}

function one(worker) {
  const job = live.overview.running.find(({ id }) => id === worker.job);
  const facts = [
    ["Heartbeat", `${roughly((now() - Date.parse(worker.heartbeat_at)) / 1000)} ago`],
    ["Memory", worker.memory_bytes === null ? "–" : bytes(worker.memory_bytes)],
    ["CPU", cpu(worker.cpu_percent)],
    ["Runs", number(worker.processed)],
    ["Started", when(worker.started_at)],
    ["Queues", worker.queues ? worker.queues.join(", ") : "all"],
    ["Process", `${worker.pid} on ${worker.host}`],
  ];
  return h(
    "li.worker",
    { key: worker.name },
    h("div.worker-head", {}, h("strong", {}, worker.name), h(`span.worker-state.is-${worker.state}`, {}, worker.state)),
    h("div.worker-job", {}, worker.job ? inHand(worker, job) : h("span.note", {}, idle(worker.state))),
    h(
      "dl.worker-facts",
      {},
      facts.map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
    ),
  );
}

function inHand(worker, job) {
  return [
    jobLink(worker.job),
    job ? command(job) : null,
    h("span.timing", {}, job ? `for ${since(job.started_at)}` : "", around(worker.expected_end_at, " · ends ")),
  ];
}

const idle = (state) =>
  ({ lost: "It died. Its job goes back in the line by itself.", stopping: "It was asked to stop." })[state] ??
  "Nothing in hand.";

function cpu(percent) {
  if (percent === null || percent === undefined) return "–";
  const text = `${number(percent)} %`;
  return h("span.cpu", {}, level(percent, 100, `CPU ${text}`), text);
}
