// The page's heartbeat: one conditional question a second, none while nobody looks, patience while the server is gone.

import { getIfChanged } from "./api.js";

const EVERY_MS = 1000;
const LONGEST_WAIT_MS = 15_000;

/** What is known of the queue: the newest overview, and how the connection is. */
export const live = { overview: null, skew: 0, failures: 0, reason: null, retryAt: 0 };

/** The server's time by this machine's clock: whose durations tick here must not depend on who is right. */
export const now = () => Date.now() + live.skew;

let tag = null;
let timer = 0;
let isAsking = false;
let onChange = () => {};
let onBeat = () => {};

/** From now on: `changed` is called when there is news, `beat` after every question, and once a second anyway. */
export function begin(changed, beat) {
  onChange = changed;
  onBeat = beat;
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : askNow()));
  askNow();
}

/** Ask at once: after a change of our own, or when somebody does not want to wait. */
export async function askNow() {
  clearTimeout(timer);
  if (isAsking) return;
  isAsking = true;
  try {
    const asked = Date.now();
    const news = await getIfChanged("/api/overview", tag);
    live.failures = 0;
    live.reason = null;
    if (news) {
      tag = news.tag;
      live.overview = news.body;
      live.skew = Date.parse(news.body.now) - (asked + Date.now()) / 2;
      onChange();
    }
  } catch (error) {
    live.failures += 1;
    live.reason = error;
  } finally {
    isAsking = false;
  }
  const wait = Math.min(LONGEST_WAIT_MS, EVERY_MS * 2 ** Math.max(0, live.failures - 1));
  live.retryAt = Date.now() + wait;
  onBeat();
  if (!document.hidden) timer = setTimeout(askNow, wait);
}

/** The same function, but never twice at once: who calls meanwhile has it done once more afterwards. */
export function oneAtATime(action) {
  let running = null;
  let again = false;
  return function run() {
    if (running) {
      again = true;
      return running;
    }
    running = action().finally(() => {
      running = null;
      if (again) {
        again = false;
        run();
      }
    });
    return running;
  };
}
