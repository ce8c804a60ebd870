// The first view: counts, charts, what each worker ran, the next jobs, and the jobs that ended lately.

import { endedChart, loadChart } from "./charts.js";
import { get, isReadOnly } from "./api.js";
import { h } from "./dom.js";
import { number, rate, upTo } from "./format.js";
import { openEnqueue } from "./enqueue.js";
import { icon } from "./icons.js";
import { legend, lineList } from "./line.js";
import { live, oneAtATime } from "./live.js";
import { STATES, button, card, choices, empty, failure, jobsAddress, loading, typed, when } from "./parts.js";
import { address } from "./router.js";
import { jobTable } from "./rows.js";
import { noWorker, pastOfWorkers } from "./workers.js";

const FIRST_IN_LINE = 8;
const NEWEST = 8;
const SPANS = { hour: "hour", day: "day" };

export function overviewView({ filters }, redraw) {
  const span = SPANS[filters.span] ?? "hour";
  const past = pastOfWorkers(redraw);
  const known = { history: null, error: null };

  const loadHistory = oneAtATime(async () => {
    try {
      Object.assign(known, { history: await get("/api/history", { span }), error: null });
    } catch (error) {
      known.error = error;
    }
    redraw();
  });

  const load = () => Promise.all([loadHistory(), past.load()]);

  function draw() {
    const { stats, workers, line, waiting, recent } = live.overview;
    if (!STATES.some((state) => stats[state])) return welcome();
    return h(
      "div.stack",
      {},
      tiles(),
      workers.some(({ state }) => state !== "lost") ? null : noWorker(),
      h("div.columns.charts", {}, charts(span, known, redraw)),
      past.draw(),
      h(
        "div.columns",
        {},
        card(
          "Next in line",
          { key: "next", tools: h("a", { href: "#/line" }, "The whole line") },
          legend(),
          lineList(line, FIRST_IN_LINE),
          waiting.held
            ? h("p.rest", {}, h("span.note", {}, `${upTo(waiting.held)} more in paused queues are held back.`))
            : null,
        ),
        card(
          "Ended lately",
          { key: "recent", tools: h("a", { href: "#/jobs" }, "All jobs") },
          recent.length
            ? jobTable(recent.slice(0, NEWEST), "Jobs that ended lately", { detail: (job) => when(job.finished_at) })
            : empty("Nothing has ended yet.", "What workers finish appears here."),
        ),
      ),
    );
  }

  return { title: "Overview", load, draw };
}

function tiles() {
  const { stats, jobs_per_minute: speed } = live.overview;
  return h(
    "section.tiles",
    { "aria-label": "Jobs by state" },
    STATES.map((state) =>
      h(
        `a.tile.tile-${state}`,
        { key: state, href: jobsAddress({ state }), "data-count": stats[state] },
        h("span.tile-name", {}, icon(state), state),
        h("strong.tile-count", {}, number(stats[state])),
      ),
    ),
    h(
      "div.tile.tile-speed",
      { key: "speed" },
      h("span.tile-name", {}, "jobs a minute"),
      h("strong.tile-count", {}, rate(speed)),
    ),
  );
}

function charts(span, { history, error }, redraw) {
  const spans = choices(
    "Span of time",
    Object.keys(SPANS).map((name) => [name, name, address("", { span: name === "hour" ? "" : name })]),
    span,
  );
  const drawn = (chart) => (error ? failure(error) : history ? chart(history, redraw) : loading());
  return [
    card("Ended per minute", { key: "ended", tools: spans }, drawn(endedChart)),
    card("Waiting and running", { key: "load", note: `the last ${span}` }, drawn(loadChart)),
  ];
}

/** An empty queue: what to type first. */
function welcome() {
  const { workers } = live.overview;
  return h(
    "section.welcome",
    {},
    h("h2", {}, "Nothing here yet."),
    h("p", {}, "Hand in a command, and a worker runs it in the background. What it prints is kept."),
    typed('queuectl enqueue "echo hello"'),
    workers.length ? null : typed("queuectl worker start"),
    isReadOnly
      ? null
      : h(
          "p",
          {},
          button("New job", () => openEnqueue(), { name: "add", kind: "primary" }),
          h("span.note.keys", {}, " or press ", h("kbd", {}, "n")),
        ),
  );
}
