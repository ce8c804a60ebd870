// The actions on jobs, the states in which each is possible, and the question before it: for one job or for many.

import { get, isReadOnly, post } from "./api.js";
import { confirmed } from "./dialog.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";
import { icon } from "./icons.js";
import { askNow } from "./live.js";
import { announce, complain } from "./notices.js";
import { jobAddress } from "./parts.js";
import { progress } from "./progress.js";

const MOST_COUNTED = 1000;

export const ACTIONS = {
  retry: {
    label: "Retry",
    icon: "failed",
    states: ["completed", "dead", "cancelled"],
    done: "in line again",
    isGentle: true,
  },
  promote: {
    label: "Run next",
    icon: "first",
    states: ["pending", "failed"],
    done: "first in line",
    isGentle: true,
    isForOne: true,
  },
  cancel: {
    label: "Cancel",
    icon: "cancelled",
    states: ["pending", "processing", "failed"],
    done: "cancelled",
    warning: "What runs is ended with all its processes.",
  },
  delete: {
    label: "Delete",
    icon: "trash",
    states: ["pending", "completed", "failed", "dead", "cancelled"],
    done: "deleted",
    warning: "The history and the output go with it. This cannot be undone.",
  },
};

/** The actions that are possible on a job in this state; none if the page is read-only. */
export function possible(state, { many = false } = {}) {
  if (isReadOnly) return [];
  return Object.keys(ACTIONS).filter(
    (name) => ACTIONS[name].states.includes(state) && !(many && ACTIONS[name].isForOne),
  );
}

export async function actOn(job, name) {
  const action = ACTIONS[name];
  const question = `${action.label} job ${job.id}?`;
  if (!action.isGentle && !(await confirmed(question, action.warning, `${action.label} this job`))) return false;
  try {
    await post(`/api/${name}/${encodeURIComponent(job.id)}`);
    announce(`Job ${job.id} is ${action.done}.`, name === "delete" ? {} : { href: jobAddress(job.id) });
    return true;
  } catch (error) {
    complain(error);
    return false;
  } finally {
    askNow();
  }
}

/** Act on many jobs: `which` is {ids} or {select}; `what` describes the selected jobs. */
export async function actOnMany(name, which, what, known) {
  const action = ACTIONS[name];
  const total = known ?? (await counted(which.select, action));
  if (total === 0) {
    announce(`There is nothing to ${name} among ${what}.`);
    return false;
  }
  const many = total === null ? `more than ${number(MOST_COUNTED)} jobs` : count(total, "job");
  const sentence = `${capital(many)}: ${what}. ${action.warning ?? "They stand in line as if they were new."}`;
  const asked = await confirmed(`${action.label} ${many}?`, sentence, `${action.label} ${many}`);
  if (!asked) return false;
  const changed = await progress(`${action.label} ${many}`, `/api/bulk/${name}`, which, total);
  if (changed !== null) announce(`${capital(count(changed, "job"))} ${changed === 1 ? "is" : "are"} ${action.done}.`);
  askNow();
  return true;
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** How many jobs are selected, null if there are too many to count. Only the server can match a text. */
async function counted(select, action) {
  let found = 0;
  let cursor = "";
  while (cursor !== null) {
    const page = await get("/api/jobs", { ...select, limit: 200, cursor });
    found += page.jobs.filter((job) => action.states.includes(job.state)).length;
    if (found > MOST_COUNTED) return null;
    cursor = page.cursor;
  }
  return found;
}

/** A menu of all actions that are possible on a job. */
export function actionMenu(job, after = () => {}) {
  const names = possible(job.state);
  if (!names.length) return null;
  const entries = names.map((name) => {
    const act = async (event) => {
      event.target.closest("details").open = false;
      if (await actOn(job, name)) after(name);
    };
    const { label, icon: drawing, isGentle } = ACTIONS[name];
    const kind = isGentle ? "" : "danger";
    return h(
      "li",
      { key: name },
      h("button", { type: "button", class: kind, on: { click: act } }, icon(drawing), label),
    );
  });
  return h(
    "details.menu",
    {},
    h("summary.icon-button", { "aria-label": `Actions for job ${job.id}`, title: "Actions" }, icon("more")),
    h("ul", {}, entries),
  );
}
