// The form that adds a job: the command first, and all other fields with their usual values.

import { get, isReadOnly, post } from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { field, submitButton } from "./fields.js";
import { askNow, live } from "./live.js";
import { announce } from "./notices.js";
import { button, jobAddress } from "./parts.js";

const USUAL = { priority: 5, max_retries: 3, timeout: 0 }; // until the settings are loaded
const AFTER = { depends_on: "completed", after_any: "however they do", after_failed: "dead" };
const WHEN = { now: "As soon as it is its turn", delay: "After a delay", run_at: "At a time" };

export function openEnqueue() {
  if (isReadOnly || document.querySelector("dialog[open]")) return;
  const state = { when: "now", priority: null, usual: USUAL, error: null, isSending: false };
  const settings = get("/api/settings").catch(() => USUAL); // an error appears when the job is sent
  const draw = (close, redraw) => {
    const change = (part) => {
      Object.assign(state, part);
      redraw();
    };
    const submit = async (event) => {
      event.preventDefault();
      change({ isSending: true, error: null });
      try {
        await enqueue(jobIn(event.target.elements, state));
        close();
      } catch (error) {
        change({ isSending: false, error });
      }
    };
    settings.then((usual) => state.usual === usual || change({ usual }));
    return form(state, submit, change, close);
  };
  openDialog("New job", draw, { wide: true, isForm: true });
}

async function enqueue(job) {
  const { ids, new: isNew, warnings } = await post("/api/enqueue", job);
  const href = jobAddress(ids[0]);
  if (isNew) announce(`Job ${ids[0]} is handed in.`, { href });
  for (const warning of warnings) announce(warning, { isError: true, href: isNew ? undefined : href });
  askNow();
}

/** Only the fields that were filled in: the server uses its defaults for the others. */
function jobIn(elements, { when, priority }) {
  const job = { command: elements.command.value };
  if (priority !== null) job.priority = priority;
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
  return h(
    "form.fields",
    { on: { submit } },
    field("Command", commandInput(), { hint: "A line for the shell. It runs on this machine, as you." }),
    h("div.field-row", {}, priorityField(state, change), queueField(), textField("Label", "label", "none")),
    h("div.field-row", {}, whenFields(state, change)),
    h("details.figures", {}, h("summary", {}, "More"), lessUsual(state.usual)),
    state.error ? h("p.failure", { role: "alert" }, state.error.message) : null,
    h(
      "footer",
      {},
      button("Cancel", () => close()),
      submitButton("Enqueue", { disabled: state.isSending }),
    ),
  );
}

const textField = (label, name, placeholder, hint) =>
  field(label, h("input", { name, placeholder, autocomplete: "off", spellcheck: "false" }), { hint });

const numberField = (label, name, placeholder, hint) =>
  field(label, h("input", { name, type: "number", min: 0, placeholder }), { hint });

const choiceField = (label, name, options, on) =>
  field(
    label,
    h(
      "select",
      { name, on },
      Object.entries(options).map(([value, text]) => h("option", { key: value, value }, text)),
    ),
  );

const commandInput = () =>
  h("textarea.mono", {
    name: "command",
    rows: 3,
    required: true,
    autofocus: true,
    spellcheck: "false",
    placeholder: 'sleep 2 && echo "hello"',
  });

function priorityField(state, change) {
  const follow = ({ target }) => change({ priority: Number(target.value) });
  const range = {
    name: "priority",
    type: "range",
    min: 1,
    max: 10,
    value: String(state.priority ?? state.usual.priority),
    on: { input: follow },
  };
  return field("Priority", h("input", range), {
    hint: "10 is the most urgent.",
    beside: h("output", { for: "dialog-priority" }, String(state.priority ?? state.usual.priority)),
  });
}

function queueField() {
  const queues = live.overview.queues.map(({ name }) => h("option", { key: name, value: name }));
  return field("Queue", h("input", { name: "queue", list: "queues", autocomplete: "off", placeholder: "default" }), {
    beside: h("datalist", { id: "queues" }, queues),
  });
}

function whenFields({ when }, change) {
  const time = h("input", { name: "run_at", required: true, type: "datetime-local", step: 1 });
  return [
    choiceField("When", "when", WHEN, { input: ({ target }) => change({ when: target.value }) }),
    when === "delay"
      ? field("Delay", h("input", { name: "delay", required: true, placeholder: "10m" }), {
          hint: "90, 10m, 2h30m, 1d",
        })
      : null,
    when === "run_at" ? field("Time", time, { hint: "By the clock of the machine that serves this page." }) : null,
  ];
}

function lessUsual(usual) {
  return [
    h(
      "div.field-row",
      {},
      numberField("Retries", "max_retries", String(usual.max_retries), "Tries after the first."),
      numberField("Time limit", "timeout", usual.timeout ? String(usual.timeout) : "none", "Seconds for one run."),
    ),
    h(
      "div.field-row",
      {},
      textField("After", "after", "ids of jobs", "Not before these have ended."),
      choiceField("How they must end", "after_how", AFTER),
    ),
    h(
      "div.field-row",
      {},
      textField("Id", "id", "a number", "A name of your own."),
      textField("Unique key", "unique", "none", "Only one such job at a time."),
    ),
    textField("Directory", "cwd", "where queuectl web was started"),
  ];
}
