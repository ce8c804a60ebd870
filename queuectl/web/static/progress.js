// A long change in several requests, with a progress bar and a button to stop.

import { post } from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { number } from "./format.js";

const PIECE = 500;

/** Change all the jobs; returns how many were changed, or null after an error, which the dialog has shown. */
export async function progress(title, path, which, total) {
  const state = { changed: 0, isStopped: false, error: null };
  let redraw = () => {};
  let close = () => {};
  const shown = openDialog(title, (closeIt, redrawIt) => {
    close = closeIt;
    redraw = redrawIt;
    return description(state, total, () => (state.error ? close() : (state.isStopped = true)));
  });
  shown.then(() => (state.isStopped = true));
  try {
    for (const piece of pieces(which)) {
      let cursor;
      let more = true;
      while (more && !state.isStopped) {
        const answer = await post(path, cursor ? { ...piece, cursor } : piece);
        state.changed += answer.changed;
        ({ more, cursor } = answer);
        redraw();
      }
    }
    close();
    return state.changed;
  } catch (error) {
    state.error = error;
    redraw();
    await shown;
    return null;
  }
}

function pieces(which) {
  if (which.select) return [{ select: which.select, limit: PIECE }];
  const starts = [...Array(Math.ceil(which.ids.length / PIECE)).keys()];
  return starts.map((start) => ({ ids: which.ids.slice(start * PIECE, (start + 1) * PIECE) }));
}

function description({ changed, error }, total, stop) {
  const done = total === null ? number(changed) : `${number(changed)} of ${number(total)}`;
  return h(
    "div.question",
    {},
    h("progress", { max: total, value: total === null ? undefined : changed, "aria-label": "Progress" }),
    h("p", { role: "status" }, done),
    error ? h("p.failure", { role: "alert" }, `After ${number(changed)}: ${error.message}`) : null,
    h("footer", {}, h("button.button.plain", { type: "button", on: { click: stop } }, error ? "Close" : "Stop")),
  );
}
