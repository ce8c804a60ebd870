// Dialogs: the browser's own, which keep the focus inside, close on Escape and give it back.

import { h, show } from "./dom.js";
import { icon } from "./icons.js";

/**
 * Open a dialog; `draw(close, redraw)` describes its content. Resolves to the value that it was closed with. A click
 * outside closes it, unless it is a form: the user's input would be lost.
 */
export function openDialog(title, draw, { wide = false, isForm = false } = {}) {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-labelledby", "dialog-title");
    if (wide) dialog.classList.add("wide");
    let result;
    const close = (value) => {
      result = value;
      dialog.close();
    };
    const redraw = () =>
      show(
        dialog,
        frame(title, () => close(), draw(close, redraw)),
      );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    dialog.addEventListener("mousedown", (event) => event.target === dialog && !isForm && close());
    document.body.append(dialog);
    redraw();
    dialog.showModal();
  });
}

function frame(title, close, content) {
  return h(
    "div.dialog",
    {},
    h(
      "header",
      {},
      h("h2", { id: "dialog-title" }, title),
      h("button.icon-button", { type: "button", "aria-label": "Close", on: { click: close } }, icon("close")),
    ),
    content,
  );
}

/** Ask before an action that cannot be undone. The safe answer has the focus. */
export function confirmed(title, text, action) {
  return openDialog(title, (close) =>
    h(
      "div.question",
      {},
      h("p", {}, text),
      h(
        "footer",
        {},
        h(
          "button.button.plain",
          { type: "button", autofocus: true, on: { click: () => close(false) } },
          "Keep as it is",
        ),
        h("button.button.danger", { type: "button", on: { click: () => close(true) } }, action),
      ),
    ),
  );
}
