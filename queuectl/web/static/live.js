// Polling: one conditional request a second, none while the page is hidden, and fewer while the server does not answer.

import { getIfChanged } from "./api.js";

const EVERY_MS = 1000;
const LONGEST_WAIT_MS = 15_000;

/** What is known of the queue: the newest overview, and the state of the connection. */
export const live = { overview: null, skew: 0, failures: 0, reason: null, retryAt: 0 };

/** The server's time: durations must not depend on whether this machine's clock agrees with the server's. */
export const now = () => Date.now() + live.skew;

let tag = null;
let timer = 0;
let isAsking = false;
let onChange = () => {};
let onBeat = () => {};

/** Start polling: `changed` is called when there is news, `beat` after every request. */
export function begin(changed, beat) {
  onChange = changed;
  onBeat = beat;
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : askNow()));
  askNow();
}

/** Ask at once: after a change by this page, or when the user does not want to wait. */
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

/** The same function, but never twice at once: a call during a run makes it run once more afterwards. */
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
