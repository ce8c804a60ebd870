// Recurring jobs: when each comes next, when it last came, and pauses.

import { isReadOnly, post } from "./api.js";
import { h } from "./dom.js";
import { absolute, asTyped } from "./format.js";
import { askNow, live } from "./live.js";
import { announce, complain } from "./notices.js";
import { button, command, empty, jobAddress, when } from "./parts.js";

export function recurringView() {
  return { title: "Recurring", draw };
}

function draw() {
  const { schedules } = live.overview;
  if (!schedules.length) {
    return empty(
      "Nothing recurs.",
      "To have a job come back every night:",
      'queuectl schedule add backup --cron "0 2 * * *" backup.sh',
    );
  }
  return h("ul.schedules", {}, schedules.map(one));
}

function one(schedule) {
  const { name, paused } = schedule;
  const rhythm = schedule.cron
    ? `${schedule.cron}${schedule.tz ? `, ${schedule.tz}` : ""}`
    : `every ${asTyped(schedule.every_seconds)}`;
  const manners = [
    schedule.missed === "skip" ? "passes over what was missed" : "makes up for what was missed, once",
    schedule.overlap ? "may overlap" : "waits for the last one to end",
  ];
  return h(
    "li",
    { key: name },
    h(
      "div.queue-head",
      {},
      h("strong", {}, name),
      h("code", {}, rhythm),
      paused ? h("span.worker-state.is-stopping", {}, "paused") : null,
    ),
    command(schedule),
    h(
      "dl.worker-facts",
      {},
      h(
        "div",
        {},
        h("dt", {}, "Next"),
        h("dd", {}, paused ? "not while it is paused" : when(schedule.next_at), nextTimes(schedule)),
      ),
      h("div", {}, h("dt", {}, "Last"), h("dd", {}, last(schedule))),
      h("div", {}, h("dt", {}, "Rules"), h("dd", {}, manners.join(", "))),
    ),
    isReadOnly
      ? null
      : h(
          "div.tools",
          {},
          button(paused ? "Resume" : "Pause", () => toggle(schedule), {
            name: paused ? "play" : "pause",
            label: `${paused ? "Resume" : "Pause"} ${name}`,
          }),
          button("Run now", () => runNow(name), { name: "add", label: `Run ${name} now` }),
        ),
  );
}

/** When the schedule came last, its newest job, and why the last occurrence enqueued none. */
function last({ last_at: at, last_job: id, note }) {
  return [
    at ? when(at) : "never yet",
    id ? [" · job ", h("a.job-id", { href: jobAddress(id) }, id)] : null,
    note ? h("span.reason", {}, `no job: ${note}`) : null,
  ];
}

function nextTimes({ next_times: times }) {
  if (!times.length) return null;
  return h(
    "details.figures",
    {},
    h("summary", {}, "The next times"),
    h(
      "ul",
      {},
      times.map((iso) => h("li", { key: iso }, h("time", { datetime: iso }, absolute(new Date(iso))))),
    ),
  );
}

const pathOf = (name) => `/api/schedules/${encodeURIComponent(name)}`;

async function toggle({ name, paused }) {
  await told(async () => {
    await post(`${pathOf(name)}/${paused ? "resume" : "pause"}`);
    announce(paused ? `${name} comes again.` : `${name} is paused.`);
  });
}

async function runNow(name) {
  await told(async () => {
    const { id } = await post(`${pathOf(name)}/run`);
    announce(`${name} was enqueued as job ${id}.`, { href: jobAddress(id) });
  });
}

async function told(change) {
  try {
    await change();
  } catch (error) {
    complain(error);
  }
  askNow();
}
