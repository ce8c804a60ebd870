// The queues: what waits and runs in each, their limits, and pauses.

import { isReadOnly, post } from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { number } from "./format.js";
import { field, submitButton } from "./fields.js";
import { askNow, live } from "./live.js";
import { announce, complain } from "./notices.js";
import { STATES, button, jobsAddress, typed } from "./parts.js";

export function queuesView() {
  return { title: "Queues", draw };
}

function draw() {
  const { queues } = live.overview;
  return h(
    "div.stack",
    {},
    h("ul.queues", {}, queues.map(one)),
    queues.length > 1
      ? null
      : h(
          "div.empty",
          {},
          h("p", {}, "A queue of its own has its own limits and pauses. To make one:"),
          typed("queuectl queue add gpu --limit 1"),
        ),
  );
}

function one(queue) {
  const { name, jobs, paused } = queue;
  return h(
    "li",
    { key: name },
    h("div.queue-head", {}, h("strong", {}, name), paused ? h("span.worker-state.is-stopping", {}, "paused") : null),
    h("p.note", {}, limits(queue)),
    shares(queue),
    h(
      "div.queue-counts",
      {},
      STATES.map((state) =>
        h(
          "a",
          { key: state, href: jobsAddress({ queue: name, state }) },
          h(`i.swatch.swatch-${state}`),
          `${number(jobs[state])} ${state}`,
        ),
      ),
    ),
    isReadOnly
      ? null
      : h(
          "div.tools",
          {},
          button(paused ? "Resume" : "Pause", () => toggle(queue), {
            name: paused ? "play" : "pause",
            label: `${paused ? "Resume" : "Pause"} queue ${name}`,
          }),
          button("Limits", () => editLimits(queue), { name: "edit", label: `Limits of queue ${name}` }),
        ),
  );
}

function limits({ limit, rate }) {
  const parts = [
    limit === null ? null : `at most ${number(limit)} at once`,
    rate === null ? null : `at most ${rate} started`,
  ];
  return parts.filter(Boolean).join(", ") || "no limits";
}

/** The jobs of the queue that have not ended, as shares of a bar: ended jobs would soon fill all of it. */
function shares({ jobs }) {
  const states = ["processing", "pending", "failed"];
  const total = states.reduce((sum, state) => sum + jobs[state], 0);
  const text = states.map((state) => `${number(jobs[state])} ${state}`).join(", ");
  return h(
    "div.shares",
    { role: "img", "aria-label": text },
    states.map((state) =>
      h(`span.back-${state}`, { key: state, style: { width: `${total ? (jobs[state] / total) * 100 : 0}%` } }),
    ),
  );
}

async function toggle({ name, paused }) {
  try {
    await post(`/api/queues/${encodeURIComponent(name)}/${paused ? "resume" : "pause"}`);
    announce(
      paused ? `Queue ${name} goes on.` : `Queue ${name} is paused: what runs goes on, nothing more is started.`,
    );
  } catch (error) {
    complain(error);
  }
  askNow();
}

function editLimits(queue) {
  const { name } = queue;
  const state = { error: null };
  openDialog(`Limits of queue ${name}`, (close, redraw) => {
    const submit = async (event) => {
      event.preventDefault();
      const { limit, rate } = event.target.elements;
      try {
        await post(`/api/queues/${encodeURIComponent(name)}`, {
          limit: limit.value === "" ? null : Number(limit.value),
          rate: rate.value.trim() || null,
        });
        announce(`Queue ${name} has its new limits.`);
        askNow();
        close();
      } catch (error) {
        state.error = error;
        redraw();
      }
    };
    return h(
      "form.fields",
      { on: { submit } },
      field(
        "At once",
        h("input", { name: "limit", type: "number", min: 1, value: queue.limit ?? "", placeholder: "any number" }),
        { hint: "How many of its jobs may run at the same time." },
      ),
      field("Rate", h("input", { name: "rate", value: queue.rate ?? "", placeholder: "10/s, 100/m, 5/h" }), {
        hint: "How many of its jobs may start in a time.",
      }),
      state.error ? h("p.failure", { role: "alert" }, state.error.message) : null,
      h(
        "footer",
        {},
        button("Keep as it is", () => close()),
        submitButton("Set the limits"),
      ),
    );
  }, { isForm: true });
}
