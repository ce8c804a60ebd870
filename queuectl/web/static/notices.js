// Notices: short messages that disappear by themselves (an aria-live region), and errors that stay.

import { h, show } from "./dom.js";
import { icon } from "./icons.js";

const SECONDS = 6;
const MOST = 4;

let notices = [];
let count = 0;

/** Show a notice, with a link if `href` is given. */
export function announce(text, { href, isError = false } = {}) {
  const notice = { key: (count += 1), text, href, isError };
  notices = [...notices, notice].slice(-MOST);
  draw();
  if (!isError) setTimeout(() => dismiss(notice), SECONDS * 1000);
}

export const complain = (error) => announce(error.message, { isError: true });

function dismiss(notice) {
  notices = notices.filter((one) => one !== notice);
  draw();
}

function draw() {
  show(
    document.getElementById("notices"),
    notices.map((notice) =>
      h(
        "div.notice",
        { key: notice.key, class: notice.isError ? "is-error" : "" },
        notice.href ? h("a", { href: notice.href }, notice.text) : h("span", {}, notice.text),
        h(
          "button.icon-button",
          { type: "button", "aria-label": "Dismiss", on: { click: () => dismiss(notice) } },
          icon("close"),
        ),
      ),
    ),
  );
}
