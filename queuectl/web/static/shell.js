// The frame around every view: the navigation, the search, and a banner while the server does not answer.

import { ServerError, get, isReadOnly, jobPath, version } from "./api.js";
import { h } from "./dom.js";
import { openEnqueue } from "./enqueue.js";
import { number, upTo } from "./format.js";
import { icon } from "./icons.js";
import { openHelp } from "./keys.js";
import { askNow, live } from "./live.js";
import { button, jobAddress, jobsAddress } from "./parts.js";
import { go } from "./router.js";
import { theme, turnTheme } from "./theme.js";

const PLACES = [
  ["", "Overview", "overview", () => null],
  ["line", "In line", "line", ({ waiting }) => upTo(waiting.line)],
  ["jobs", "Jobs", "jobs", () => null],
  ["dead", "Dead", "dead", ({ stats }) => number(stats.dead)],
  ["workers", "Workers", "workers", ({ workers }) => number(workers.filter(({ state }) => state !== "lost").length)],
  ["queues", "Queues", "queues", ({ queues }) => (queues.length > 1 ? number(queues.length) : null)],
  ["recurring", "Recurring", "recurring", ({ schedules }) => number(schedules.length)],
];

const state = { isMenuOpen: false };

/** The whole page: the frame, and in it the open view. */
export function shell(place, title, content, redraw) {
  return h(
    "div.page",
    {},
    h("a.skip", { href: "#main", on: { click: skip } }, "Skip to the content"),
    sidebar(place, redraw),
    h(
      "main.body",
      { id: "main", tabindex: -1 },
      topBar(title),
      h("div.banner-place", { "aria-live": "polite" }, banner()),
      content,
    ),
  );
}

/** What follows the # is the address of the view, so a link to a place on the page must move the focus itself. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function sidebar(place, redraw) {
  const toggle = (isMenuOpen) => {
    Object.assign(state, { isMenuOpen });
    redraw();
  };
  return h(
    "header.sidebar",
    {},
    h(
      "div.brand-row",
      {},
      h("a.brand", { href: "#/" }, h("i.logo", {}, h("b"), h("b"), h("b")), "queuectl"),
      isReadOnly ? h("span.tag", {}, "read-only") : null,
      h(
        "button.icon-button.menu-button",
        {
          type: "button",
          "aria-label": "Menu",
          "aria-expanded": String(state.isMenuOpen),
          "aria-controls": "places",
          on: { click: () => toggle(!state.isMenuOpen) },
        },
        icon(state.isMenuOpen ? "close" : "menu"),
      ),
    ),
    h(
      "div.sidebar-content",
      {
        class: state.isMenuOpen ? "is-open" : "",
        id: "places",
        on: { click: (event) => event.target.closest("a") && toggle(false) },
      },
      h(
        "nav",
        { "aria-label": "Places" },
        h(
          "ul",
          {},
          PLACES.map((one) => link(one, place)),
        ),
      ),
      h(
        "div.sidebar-foot",
        {},
        h(
          "button.foot-button",
          { type: "button", on: { click: () => (turnTheme(), redraw()) } },
          icon("theme"),
          `Theme: ${theme()}`,
        ),
        h(
          "button.foot-button.keys",
          { type: "button", on: { click: openHelp } },
          icon("help"),
          "Keyboard",
          h("kbd", {}, "?"),
        ),
        h("p.note", {}, version ? `queuectl ${version}` : ""),
      ),
    ),
  );
}

function link([path, text, drawing, counted], place) {
  const value = live.overview ? counted(live.overview) : null;
  return h(
    "li",
    { key: path },
    h(
      "a.place-link",
      { href: `#/${path}`, "aria-current": path === place ? "page" : null },
      icon(drawing),
      h("span", {}, text),
      value && value !== "0" ? h("span.count", { class: path === "dead" ? "is-bad" : "" }, value) : null,
    ),
  );
}

function topBar(title) {
  return h(
    "div.top",
    {},
    h("h1", {}, title),
    h("span.spacer", {}),
    h(
      "form.search",
      { role: "search", "aria-label": "Find a job", on: { submit: find } },
      icon("search"),
      h("input", {
        id: "search",
        type: "search",
        name: "text",
        placeholder: "Job id or text",
        "aria-label": "Job id, or text in a command",
        autocomplete: "off",
        spellcheck: "false",
      }),
      h("kbd.keys", { "aria-hidden": "true" }, "/"),
    ),
    isReadOnly ? null : button("New job", openEnqueue, { name: "add", kind: "primary", title: "New job (n)" }),
  );
}

/** Go to the job with this id, or to all jobs with the text in their command. */
async function find(event) {
  event.preventDefault();
  const input = event.target.elements.text;
  const text = input.value.trim();
  if (!text) return;
  input.blur();
  go((await isJob(text)) ? jobAddress(text) : jobsAddress({ match: text }));
}

async function isJob(id) {
  if (/\s/.test(id)) return false;
  try {
    await get(jobPath(id), { output: 0 });
    return true;
  } catch {
    return false;
  }
}

/** Says, without alarm, that the server does not answer, and when the page tries again. */
function banner() {
  if (!live.failures) return null;
  const isRefused = live.reason instanceof ServerError && [401, 403].includes(live.reason.status);
  const seconds = Math.max(0, Math.ceil((live.retryAt - Date.now()) / 1000));
  const text = isRefused
    ? "This page is not signed in any more. Open the address that queuectl web printed."
    : `${live.reason.message} What you see is as it was.`;
  return h(
    "div.banner",
    {},
    h("span", {}, text),
    h("span.note", { "aria-hidden": "true" }, seconds ? `Trying again in ${seconds} s.` : "Trying …"),
    button("Try now", askNow, { kind: "link" }),
  );
}
