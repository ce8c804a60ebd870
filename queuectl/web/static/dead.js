// The dead letter queue: dead jobs grouped by error, to be retried one by one, by group, or all at once.

import { actOn, actOnMany } from "./actions.js";
import { get, isReadOnly } from "./api.js";
import { h } from "./dom.js";
import { count, number } from "./format.js";
import { live, oneAtATime } from "./live.js";
import { button, card, empty, failure, jobLink, jobsAddress, level, loading, when } from "./parts.js";
import { jobTable } from "./rows.js";

const NEWEST = 50;

export function deadView(_, redraw) {
  const known = { groups: null, more: false, looked_at: 0, jobs: [], error: null };

  const load = oneAtATime(async () => {
    try {
      const [found, newest] = await Promise.all([
        get("/api/dead/groups"),
        get("/api/jobs", { state: "dead", limit: NEWEST }),
      ]);
      Object.assign(known, found, { jobs: newest.jobs, error: null });
    } catch (error) {
      known.error = error;
    }
    redraw();
  });

  function draw() {
    if (known.error) return failure(known.error);
    if (!known.groups) return loading();
    if (!known.groups.length) {
      return empty(
        "No job is dead.",
        "Here stand jobs that failed in every try. To see one:",
        "queuectl enqueue --max-retries 0 -- false",
      );
    }
    return h(
      "div.stack",
      {},
      card(
        "By how they failed",
        { key: "groups", note: note(known), tools: forAll(load) },
        h(
          "ul.groups",
          {},
          known.groups.map((group) => groupRow(group, known, load)),
        ),
      ),
      card("The newest", { key: "newest" }, jobTable(known.jobs, "The newest dead jobs", { after: load })),
    );
  }

  return { title: "Dead", load, draw };
}

const note = ({ looked_at, more }) =>
  more ? `of the newest ${count(looked_at, "dead job")}` : count(looked_at, "dead job");

function forAll(load) {
  if (isReadOnly) return null;
  const total = live.overview.stats.dead;
  const all = (name) => async () => {
    await actOnMany(name, { select: { state: "dead" } }, "all that are dead", total);
    load();
  };
  return [
    h("span", { key: "retry" }, button("Retry all", all("retry"), { name: "failed" })),
    h("span", { key: "delete" }, button("Delete all", all("delete"), { name: "trash", kind: "quiet-danger" })),
  ];
}

function groupRow(group, known, load) {
  const select = { state: "dead", reason: group.reason };
  const act = (name) => async () => {
    const many = known.more ? undefined : group.count;
    await actOnMany(name, { select }, `all that are dead by “${group.reason}”`, many);
    load();
  };
  const retryOne = (id) => async () => {
    await actOn({ id }, "retry");
    load();
  };
  return h(
    "li",
    { key: group.reason },
    h("span.group-count", {}, number(group.count)),
    h(
      "div.group-reason",
      {},
      h("a", { href: jobsAddress(select), title: "Show these jobs" }, group.reason),
      h("span.note", {}, "newest ", when(group.newest_at)),
    ),
    level(group.count, known.looked_at, `${number(group.count)} of ${number(known.looked_at)}`),
    isReadOnly
      ? null
      : h(
          "div.tools",
          {},
          button(group.count === 1 ? "Retry" : `Retry these ${number(group.count)}`, act("retry"), {
            name: "failed",
            label: `Retry ${count(group.count, "job")}: ${group.reason}`,
          }),
          button("Delete", act("delete"), {
            kind: "quiet-danger",
            label: `Delete ${count(group.count, "job")}: ${group.reason}`,
          }),
        ),
    h(
      "ul.examples",
      { "aria-label": "Such as" },
      group.examples.map((id) =>
        h(
          "li",
          { key: id },
          jobLink(id),
          isReadOnly || group.count === 1
            ? null
            : button("Retry", retryOne(id), { kind: "link", label: `Retry job ${id}` }),
        ),
      ),
    ),
  );
}
