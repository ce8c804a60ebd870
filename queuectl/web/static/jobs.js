// Jobs by state, queue, label and text: filters in the address, one page at a time, and actions on many jobs.

import { ACTIONS, actOnMany, possible } from "./actions.js";
import { get } from "./api.js";
import { h } from "./dom.js";
import { field } from "./fields.js";
import { count, number } from "./format.js";
import { live, oneAtATime } from "./live.js";
import { STATES, button, card, choices, empty, failure, loading } from "./parts.js";
import { address, here, replace } from "./router.js";
import { jobTable } from "./rows.js";

const PAGE = 50;
const MOST = 200; // jobs on one page; more jobs are on the next page
const TYPING_MS = 300;
const FILTERS = ["state", "queue", "label", "match", "reason", "older_than"];

export function jobsView({ filters }, redraw) {
  const { cursor = "" } = filters;
  const wanted = known(filters);
  const page = { jobs: null, next: null, limit: PAGE, error: null };
  const chosen = { ids: new Set(), all: false };

  const load = oneAtATime(async () => {
    try {
      const found = await get("/api/jobs", { ...wanted, limit: page.limit, cursor });
      Object.assign(page, { jobs: found.jobs, next: found.cursor, error: null });
      const shown = new Set(found.jobs.map((job) => job.id));
      chosen.ids = new Set([...chosen.ids].filter((id) => shown.has(id)));
    } catch (error) {
      page.error = error;
    }
    redraw();
  });

  const more = () => {
    page.limit += PAGE;
    load();
  };
  const change = (ids) => {
    Object.assign(chosen, { ids, all: false });
    redraw();
  };

  function draw() {
    return h(
      "div.stack",
      {},
      stateChoices(wanted),
      filterForm(wanted),
      chosen.ids.size ? bulkBar() : null,
      card("Jobs", { note: note(), key: "jobs" }, content()),
    );
  }

  function note() {
    if (!page.jobs) return "";
    const all = total(wanted);
    if (wanted.reason) return told(wanted);
    const order = wanted.state === "pending" ? "in the order in which they will run" : "newest first";
    return all === null ? order : `${count(all, "job")}, ${order}`;
  }

  function content() {
    if (page.error) return failure(page.error);
    if (!page.jobs) return loading();
    return [
      page.jobs.length ? jobTable(page.jobs, "Jobs", { selection: { ids: chosen.ids, change } }) : nothing(),
      h(
        "footer.pages",
        {},
        cursor ? h("a.button.plain", { href: address("jobs", wanted) }, "Back to the first") : null,
        onward(),
      ),
    ];
  }

  function onward() {
    if (!page.next) return null;
    if (page.jobs.length >= MOST || page.jobs.length < page.limit) {
      const text = page.jobs.length < page.limit ? "Look further" : `Next ${PAGE}`;
      return h("a.button.plain", { href: address("jobs", { ...wanted, cursor: page.next }) }, text);
    }
    return button(`Show ${PAGE} more`, more);
  }

  function nothing() {
    if (page.next) return empty("None of these match.", "There are older ones that were not looked at yet.");
    if (isFiltered(wanted)) {
      return h(
        "div.empty",
        {},
        h("p.empty-title", {}, "No job matches."),
        h("a.button.plain", { href: "#/jobs" }, "Show all jobs"),
      );
    }
    return empty("There are no jobs yet.", "Hand in the first one:", 'queuectl enqueue "echo hello"');
  }

  /** The actions on the chosen jobs, or on all that match the filters; without a filter there is no "all". */
  function bulkBar() {
    const jobs = page.jobs.filter((job) => chosen.ids.has(job.id));
    const states = wanted.state ? [wanted.state] : chosen.all ? STATES : [...new Set(jobs.map((job) => job.state))];
    const names = [...new Set(states.flatMap((state) => possible(state, { many: true })))];
    const all = page.next && isFiltered(wanted) && jobs.length === page.jobs.length && !chosen.all;
    return h(
      "div.bulk",
      { role: "region", "aria-label": "What is chosen" },
      h("span", { role: "status" }, chosen.all ? `All that match are chosen` : `${number(jobs.length)} chosen`),
      all
        ? button(
            "Choose all that match",
            () => {
              chosen.all = true;
              redraw();
            },
            { kind: "link" },
          )
        : null,
      h("span.spacer", {}),
      names.map((name) =>
        h(
          "span",
          { key: name },
          button(ACTIONS[name].label, () => toMany(name, jobs), { name: ACTIONS[name].icon }),
        ),
      ),
      button("Clear", () => change(new Set()), { kind: "link" }),
    );
  }

  async function toMany(name, jobs) {
    const fitting = jobs.filter((job) => ACTIONS[name].states.includes(job.state));
    const done = chosen.all
      ? await actOnMany(name, { select: wanted }, told(wanted), wanted.state ? (total(wanted) ?? undefined) : undefined)
      : await actOnMany(
          name,
          { ids: fitting.map((job) => job.id) },
          fitting
            .map((job) => job.id)
            .slice(0, 10)
            .join(", ") + (fitting.length > 10 ? ", …" : ""),
          fitting.length,
        );
    if (!done) return;
    change(new Set());
    load();
  }

  return { title: wanted.state ? `Jobs, ${wanted.state}` : "Jobs", load, draw };
}

/** The known filters of an address that have a value. */
const known = (filters) =>
  Object.fromEntries(Object.entries(filters).filter(([name, value]) => FILTERS.includes(name) && value));

const isFiltered = (wanted) => Object.keys(wanted).length > 0;

/** How many jobs match, null if it is not known: there are counts only by state and by queue. */
function total({ state, queue, ...others }) {
  if (isFiltered(others)) return null;
  const { stats, queues } = live.overview;
  const counts = queue ? queues.find(({ name }) => name === queue)?.jobs : stats;
  if (!counts) return null;
  return state ? (counts[state] ?? null) : Object.values(counts).reduce((sum, value) => sum + value, 0);
}

function told({ state, queue, label, match, reason, older_than: age }) {
  const parts = [
    state ? `all that are ${state}` : "all in any state",
    queue ? `in the queue ${queue}` : "",
    label ? `labelled ${label}` : "",
    match ? `with “${match}” in the command` : "",
    reason ? `by “${reason}”` : "",
    age ? `older than ${age}` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

function stateChoices(wanted) {
  const options = ["", ...STATES].map((state) => {
    const all = total({ ...wanted, state });
    const counted = all === null ? null : h("span.count", {}, number(all));
    return [state, state || "all", address("jobs", { ...wanted, state }), counted];
  });
  return choices("Filter by state", options, wanted.state ?? "");
}

let typing = 0;
let typed = {}; // in the fields of the form, but not yet in the address

/** After a pause, changes the address as it is then: a link or another field may have changed it meanwhile. */
function follow(name) {
  return (event) => {
    typed[name] = event.target.value.trim();
    clearTimeout(typing);
    typing = setTimeout(goToTyped, event.type === "input" ? TYPING_MS : 0);
  };
}

function goToTyped() {
  const { path, filters } = here();
  if (path[0] === "jobs") replace(address("jobs", { ...known(filters), ...typed }));
  typed = {};
}

function filterForm(wanted) {
  const text = (name) =>
    h("input", {
      type: "search",
      name,
      value: wanted[name] ?? "",
      autocomplete: "off",
      spellcheck: "false",
      on: { input: follow(name) },
    });
  const queues = live.overview.queues.map(({ name }) => name);
  const queue = h(
    "select",
    { name: "queue", value: wanted.queue ?? "", on: { change: follow("queue") } },
    h("option", { value: "" }, "all"),
    queues.map((name) => h("option", { key: name, value: name, selected: name === wanted.queue }, name)),
  );
  return h(
    "form.filters",
    { role: "search", "aria-label": "Filter jobs", on: { submit: (event) => event.preventDefault() } },
    field("Text in the command", text("match"), { form: "filter" }),
    field("Label", text("label"), { form: "filter" }),
    field("Queue", queue, { form: "filter" }),
    isFiltered(wanted) ? h("a.button.plain", { href: "#/jobs" }, "Clear") : null,
  );
}
