// The keyboard: shortcuts of the whole page, and the page that lists them.

import { isReadOnly } from "./api.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { openEnqueue } from "./enqueue.js";

const SHORTCUTS = [
  ["/", "search by id or text"],
  ...(isReadOnly ? [] : [["n", "new job"]]),
  ["?", "this help"],
  ["Esc", "close what is open"],
  ["↑ ↓ or k j", "from row to row"],
  ["Enter", "open the job"],
  ...(isReadOnly ? [] : [["x", "choose the row"]]),
  ["← →", "through the timeline, a chart, tabs"],
];

export function openHelp() {
  if (document.querySelector("dialog[open]")) return;
  openDialog("Keyboard", () =>
    h(
      "dl.shortcuts",
      {},
      SHORTCUTS.map(([keys, text]) => h("div", { key: keys }, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text))),
    ),
  );
}

export function beginKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return closeMenus();
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog"))
      return;
    const action = { "/": focusSearch, "?": openHelp, n: openEnqueue, j: focusFirstRow }[event.key];
    if (!action || event.defaultPrevented) return;
    event.preventDefault();
    action();
  });
  document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
}

function focusSearch() {
  document.getElementById("search").focus();
}

function focusFirstRow() {
  document.querySelector("tbody .job-id")?.focus();
}

/** Close every menu but this; if the focus was in a menu, it returns to the button that opened the menu. */
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (menu === except) continue;
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
}
