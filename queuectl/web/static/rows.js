// A table of jobs, as every view shows them: one row per job, arrow keys to move, checkboxes to choose.

import { actionMenu } from "./actions.js";
import { isReadOnly } from "./api.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";
import { command, jobLink, jobsAddress, stateBadge, timing, tries } from "./parts.js";

const COLUMNS = ["State", "Job", "Command", "Priority", "Tries", "When"];

/** `selection` is {ids, change}: the chosen ids, and what to call with a new set; without it rows have no checkbox. */
export function jobTable(jobs, caption, { selection, detail = timing, after } = {}) {
  const chosen = isReadOnly ? null : selection;
  return h(
    "table.jobs",
    { role: "table", on: { keydown: walk } },
    h("caption.unseen", {}, caption),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        chosen ? h("th.pick", { role: "columnheader", scope: "col" }, chooseAll(jobs, chosen)) : null,
        COLUMNS.map((name) => h("th", { key: name, role: "columnheader", scope: "col" }, name)),
        isReadOnly ? null : h("th", { role: "columnheader", scope: "col" }, h("span.unseen", {}, "Actions")),
      ),
    ),
    h(
      "tbody",
      { role: "rowgroup" },
      jobs.map((job) => row(job, chosen, detail, after)),
    ),
  );
}

function row(job, chosen, detail, after) {
  const isChosen = Boolean(chosen?.ids.has(job.id));
  return h(
    "tr",
    { key: job.id, role: "row", class: isChosen ? "is-chosen" : "" },
    chosen ? h("td.pick", { role: "cell" }, choose(job, isChosen, chosen)) : null,
    h("td.cell-state", { role: "cell" }, stateBadge(job.state)),
    h("td.cell-id", { role: "cell" }, jobLink(job.id)),
    h("td.cell-command", { role: "cell" }, h("div.command-row", {}, command(job), tags(job)), reason(job)),
    h("td.cell-priority", { role: "cell" }, priority(job)),
    h("td.cell-tries", { role: "cell" }, tries(job)),
    h("td.cell-when", { role: "cell" }, detail(job)),
    isReadOnly ? null : h("td.cell-actions", { role: "cell" }, actionMenu(job, after)),
  );
}

export function tags(job) {
  return h(
    "span.tags",
    {},
    job.queue === "default" ? null : h("a.tag", { href: jobsAddress({ queue: job.queue }), title: "Queue" }, job.queue),
    job.label ? h("a.tag.label", { href: jobsAddress({ label: job.label }), title: "Label" }, job.label) : null,
  );
}

const reason = (job) => (job.error_message ? h("span.reason", {}, job.error_message) : null);

function priority(job) {
  const said = `priority ${job.priority}, ${count(job.waiting_time, "point")} for waiting`;
  return h("span", { title: said }, `${job.priority}${job.waiting_time ? `+${number(job.waiting_time)}` : ""}`);
}

function choose(job, isChosen, { ids, change }) {
  const toggle = (event) => {
    const next = new Set(ids);
    if (event.target.checked) next.add(job.id);
    else next.delete(job.id);
    change(next);
  };
  return h("input", {
    type: "checkbox",
    checked: isChosen,
    "aria-label": `Choose job ${job.id}`,
    on: { change: toggle },
  });
}

function chooseAll(jobs, { ids, change }) {
  const some = jobs.some((job) => ids.has(job.id));
  const all = some && jobs.every((job) => ids.has(job.id));
  const toggle = (event) => change(new Set(event.target.checked ? jobs.map((job) => job.id) : []));
  return h("input", {
    type: "checkbox",
    checked: all,
    indeterminate: some && !all,
    "aria-label": "Choose all jobs shown",
    on: { change: toggle },
  });
}

const WAYS = {
  ArrowUp: "previousElementSibling",
  k: "previousElementSibling",
  ArrowDown: "nextElementSibling",
  j: "nextElementSibling",
};

/** The arrow keys up and down, or k and j, go from row to row; x chooses the row. */
function walk(event) {
  const from = event.target.closest("tbody tr");
  if (!from || event.ctrlKey || event.metaKey || event.target.closest(".menu ul")) return;
  if (event.key === "x") from.querySelector(".pick input")?.click();
  else if (WAYS[event.key]) from[WAYS[event.key]]?.querySelector(".job-id").focus();
  else return;
  event.preventDefault();
}
