// The form that hands in a job: the command first, all else as it usually is.

import { isReadOnly, post } from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { field, submitButton } from "./fields.js";
import { askNow, live } from "./live.js";
import { announce } from "./notices.js";
import { button, jobAddress } from "./parts.js";

const FIRST_PRIORITY = 5;
const WHEN = { now: "As soon as it is its turn", delay: "After a delay", run_at: "At a time" };

export function openEnqueue() {
  if (isReadOnly || document.querySelector("dialog[open]")) return;
  const state = { when: "now", priority: FIRST_PRIORITY, error: null, isSending: false };
  openDialog("New job", (close, redraw) => {
    const submit = async (event) => {
      event.preventDefault();
      Object.assign(state, { isSending: true, error: null });
      redraw();
      try {
        const { ids, warnings } = await post("/api/enqueue", jobIn(event.target.elements, state));
        announce(`Job ${ids[0]} is handed in.`, { href: jobAddress(ids[0]) });
        for (const warning of warnings) announce(warning, { isError: true });
        askNow();
        close();
      } catch (error) {
        Object.assign(state, { isSending: false, error });
        redraw();
      }
    };
    const change = (part) => {
      Object.assign(state, part);
      redraw();
    };
    return form(state, submit, change, close);
  }, { wide: true });
}

/** What was filled in, and nothing else: what is left empty is as it usually is. */
function jobIn(elements, { when, priority }) {
  const job = { command: elements.command.value, priority };
  for (const name of ["queue", "label", "id", "cwd", "unique"]) {
    if (elements[name].value.trim()) job[name] = elements[name].value.trim();
  }
  for (const name of ["max_retries", "timeout"]) {
    if (elements[name].value !== "") job[name] = Number(elements[name].value);
  }
  const after = elements.after.value.split(/[\s,]+/).filter(Boolean);
  if (after.length) job[elements.after_how.value] = after;
  if (when !== "now") job[when] = elements[when].value.trim();
  return job;
}

function form(state, submit, change, close) {
  const onChange = (name, read = (target) => target.value) => ({ input: ({ target }) => change({ [name]: read(target) }) });
  return h(
    "form.fields",
    { on: { submit } },
    field("Command", h("textarea.mono", { name: "command", rows: 3, required: true, autofocus: true, spellcheck: "false", placeholder: 'sleep 2 && echo "hello"' }), "A line for the shell. It runs on this machine, as you."),
    h(
      "div.field-row",
      {},
      field(
        "Priority",
        h(
          "span.range",
          {},
          h("input", { name: "priority", type: "range", min: 1, max: 10, value: String(FIRST_PRIORITY), on: onChange("priority", ({ value }) => Number(value)) }),
          h("output", {}, String(state.priority)),
        ),
        "10 is the most urgent.",
      ),
      field("Queue", h("input", { name: "queue", list: "queues", autocomplete: "off", placeholder: "default" })),
      h("datalist", { id: "queues" }, live.overview.queues.map(({ name }) => h("option", { key: name, value: name }))),
      field("Label", h("input", { name: "label", autocomplete: "off", placeholder: "none" })),
    ),
    h(
      "div.field-row",
      {},
      field(
        "When",
        h("select", { name: "when", on: onChange("when") }, Object.entries(WHEN).map(([name, text]) => h("option", { key: name, value: name }, text))),
      ),
      state.when === "delay" ? field("Delay", h("input", { name: "delay", required: true, placeholder: "10m" }), "90, 10m, 2h30m, 1d") : null,
      state.when === "run_at" ? field("Time", h("input", { name: "run_at", required: true, type: "datetime-local", step: 1 }), "By the clock of the machine that serves this page.") : null,
    ),
    h(
      "details.figures",
      {},
      h("summary", {}, "More"),
      h(
        "div.field-row",
        {},
        field("Retries", h("input", { name: "max_retries", type: "number", min: 0, placeholder: "as usual" }), "Tries after the first."),
        field("Time limit", h("input", { name: "timeout", type: "number", min: 0, placeholder: "none" }), "Seconds for one run."),
      ),
      h(
        "div.field-row",
        {},
        field("After", h("input", { name: "after", autocomplete: "off", placeholder: "ids of jobs" }), "Not before these jobs …"),
        field(
          "how they end",
          h(
            "select",
            { name: "after_how" },
            h("option", { value: "depends_on" }, "… are completed"),
            h("option", { value: "after_any" }, "… have ended, however"),
            h("option", { value: "after_failed" }, "… are dead"),
          ),
        ),
      ),
      h(
        "div.field-row",
        {},
        field("Id", h("input", { name: "id", autocomplete: "off", placeholder: "a number" }), "A name of your own."),
        field("Unique key", h("input", { name: "unique", autocomplete: "off", placeholder: "none" }), "Only one such job at a time."),
      ),
      field("Directory", h("input.mono", { name: "cwd", autocomplete: "off", placeholder: "where queuectl web was started" })),
    ),
    state.error ? h("p.failure", { role: "alert" }, state.error.message) : null,
    h("footer", {}, button("Cancel", () => close()), submitButton("Enqueue", { disabled: state.isSending })),
  );
}
