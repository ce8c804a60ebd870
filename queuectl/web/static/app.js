// The page: which view is open, when it loads its data, and when it is drawn.

import { h, show } from "./dom.js";
import { deadView } from "./dead.js";
import { jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { beginKeys } from "./keys.js";
import { lineView } from "./line.js";
import { begin, live } from "./live.js";
import { announce } from "./notices.js";
import { overviewView } from "./overview.js";
import { queuesView } from "./queues.js";
import { recurringView } from "./recurring.js";
import { here } from "./router.js";
import { shell } from "./shell.js";
import { applyTheme } from "./theme.js";
import { beginTips } from "./tip.js";
import { workersView } from "./workers.js";

const VIEWS = {
  "": overviewView,
  line: lineView,
  jobs: jobsView,
  job: jobView,
  dead: deadView,
  workers: workersView,
  queues: queuesView,
  recurring: recurringView,
};

/** The view for an unknown address of this page. */
const nowhereView = () => ({
  title: "Nothing here",
  draw: () => h("div.empty", {}, h("p.empty-title", {}, "There is no such place."), h("a", { href: "#/" }, "Overview")),
});

const PATIENCE_MS = 400;

let view = null;
let opening = null;
let wasGone = false;

/** Open the view of the address; the old view stays until the new one has something to show, so nothing flickers. */
async function open() {
  const { path, filters } = here();
  const [name = ""] = path;
  const make = Object.hasOwn(VIEWS, name) ? VIEWS[name] : nowhereView;
  const next = { place: path.join("/"), ...make({ path, filters }, draw) };
  opening = next;
  if (live.overview) await Promise.race([next.load?.(), new Promise((done) => setTimeout(done, PATIENCE_MS))]);
  if (opening !== next) return;
  const isOther = view?.place !== next.place;
  view = next;
  draw();
  if (isOther) scrollTo(0, 0);
}

function draw() {
  if (!view) return;
  const [first] = view.place.split("/");
  const title = live.failures ? `${view.title} (not connected)` : view.title;
  document.title = `${title} · queuectl`;
  const content = live.overview ? h("div.view", { key: view.place, "data-place": view.place }, view.draw()) : null;
  show(document.getElementById("page"), shell(first === "job" ? "jobs" : first, view.title, content, draw));
}

function changed() {
  view?.load?.();
  draw();
}

function beat() {
  if (wasGone && !live.failures) announce("The server is back.");
  wasGone = live.failures > 0;
  if (!wasGone) view?.beat?.();
  draw();
}

applyTheme();
addEventListener("hashchange", open);
open();
beginKeys();
beginTips();
begin(changed, beat);
setInterval(() => document.hidden || draw(), 1000); // running durations grow while nothing changes
