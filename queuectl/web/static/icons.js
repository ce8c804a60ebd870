// The page's icons: one stroke on a grid of 16, in the colour of the text around them.

import { h } from "./dom.js";

const SHAPES = {
  pending: ["M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11", "M8 5v3.2l2 1.3"],
  processing: ["M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11", "M6.7 5.8v4.4L10.3 8z"],
  completed: ["M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11", "M5.5 8.2l1.8 1.8l3.3-3.8"],
  failed: ["M12.6 6A5 5 0 1 0 13 8.8", "M13 3v3.2H9.8"],
  dead: ["M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11", "M6 6l4 4M10 6l-4 4"],
  cancelled: ["M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11", "M4.2 11.8l7.6-7.6"],
  overview: ["M2.5 2.5h4.5v6H2.5zM9 2.5h4.5v3.5H9zM9 8h4.5v5.5H9zM2.5 10.5h4.5v3H2.5z"],
  line: ["M2.5 4h11M2.5 8h8M2.5 12h5"],
  jobs: ["M5.5 4h8M5.5 8h8M5.5 12h8", "M2.5 4h.01M2.5 8h.01M2.5 12h.01"],
  workers: [
    "M4.5 4.5h7v7h-7z",
    "M6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14",
  ],
  queues: ["M8 2.5l5.5 2.75L8 8L2.5 5.25z", "M2.5 8L8 10.75L13.5 8", "M2.5 10.75L8 13.5l5.5-2.75"],
  recurring: ["M3 7a5 5 0 0 1 8.5-2.5L13 6M13 2.8V6H9.8", "M13 9a5 5 0 0 1-8.5 2.5L3 10M3 13.2V10h3.2"],
  search: ["M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9", "M10.3 10.3l3.2 3.2"],
  add: ["M8 3v10M3 8h10"],
  help: ["M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11", "M6.4 6.4a1.6 1.6 0 1 1 2.3 1.5c-.5.3-.7.6-.7 1.1M8 11h.01"],
  theme: ["M8 2.5a5.5 5.5 0 1 0 0 11z", "M8 2.5a5.5 5.5 0 0 1 0 11"],
  menu: ["M2.5 4.5h11M2.5 8h11M2.5 11.5h11"],
  more: ["M3.5 8h.01M8 8h.01M12.5 8h.01"],
  close: ["M4 4l8 8M12 4l-8 8"],
  copy: ["M5.5 5.5h7v7h-7z", "M3.5 10.5v-7h7"],
  download: ["M8 2.5v7.5M4.8 7L8 10.2L11.2 7M3 13.2h10"],
  pause: ["M5.5 3.5v9M10.5 3.5v9"],
  play: ["M5 3.5v9l7-4.5z"],
  first: ["M8 13V5M4.5 8L8 4.5L11.5 8M3.5 2.5h9"],
  trash: ["M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 8.5h6l.5-8.5"],
  edit: ["M3 13l.6-2.8L10.5 3.3l2.2 2.2L5.8 12.4z"],
};

/** An icon that is hidden from screen readers: its meaning is in the text beside it, or in a label. */
export function icon(name) {
  const paths = SHAPES[name].map((d) => h("path", { d }));
  return h(`svg.icon.icon-${name}`, { viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, paths);
}
