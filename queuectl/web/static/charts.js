// Charts of the last hour or day, drawn as SVG: what ended each minute, and how many waited and ran.

import { h } from "./dom.js";
import { minuteOf, number, rate } from "./format.js";

const HEIGHT = 150;
const LABELS = 18;
const MARKS = 5;

const ENDED = [
  ["completed", "completed"],
  ["failed", "failed, to be retried"],
  ["dead", "dead"],
];
const LOAD = [
  ["waiting", "waiting"],
  ["running", "running"],
];

/** Which step the pointer or the arrow keys are at, for each chart. */
const at = { ended: null, load: null };

export function endedChart(history, redraw) {
  const minutes = history.step_seconds / 60;
  const points = history.points.map((point) => ({
    at: point.at,
    values: ENDED.map(([name]) => point[name] / minutes),
  }));
  const highest = niceTop(Math.max(0, ...points.map(({ values }) => values.reduce((sum, value) => sum + value, 0))));
  const bars = points.map(({ values }, index) => {
    let below = 0;
    return values.map((value, series) => {
      below += value;
      return value ? bar(index, points.length, below / highest, value / highest, ENDED[series][0]) : null;
    });
  });
  const sums = ENDED.map(([name]) => history.points.reduce((sum, point) => sum + point[name], 0));
  return chart("ended", "Jobs ended a minute", ENDED, points, highest, bars, { figures: sums, of: "in all" }, redraw);
}

export function loadChart(history, redraw) {
  const points = history.points.map((point) => ({ at: point.at, values: LOAD.map(([name]) => point[name]) }));
  const highest = niceTop(Math.max(0, ...points.flatMap(({ values }) => values)));
  const lines = LOAD.map(([name], series) => line(points, series, highest, name));
  const plot = h(
    "svg",
    { viewBox: `0 0 ${points.length} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: HEIGHT },
    lines,
  );
  const newest = points.at(-1)?.values ?? LOAD.map(() => 0);
  return chart("load", "Jobs waiting and running", LOAD, points, highest, plot, { figures: newest, of: "now" }, redraw);
}

function bar(index, steps, top, size, name) {
  const height = Math.max(1, size * HEIGHT);
  const gap = steps > 1 ? 0.15 : 0;
  return h(`rect.fill-${name}`, {
    x: `${((index + gap / 2) / steps) * 100}%`,
    width: `${((1 - gap) / steps) * 100}%`,
    y: HEIGHT - top * HEIGHT,
    height,
  });
}

function line(points, series, highest, name) {
  const corners = points.map(({ values }, index) => `${index + 0.5},${HEIGHT - (values[series] / highest) * HEIGHT}`);
  const area = `0.5,${HEIGHT} ${corners.join(" ")} ${points.length - 0.5},${HEIGHT}`;
  return h(
    "g",
    { key: name },
    h(`polygon.area-${name}`, { points: area }),
    h(`polyline.stroke-${name}`, { points: corners.join(" "), "vector-effect": "non-scaling-stroke" }),
  );
}

/** The frame of both charts: the scale, the times below, the selected step, and the figures as a table. */
function chart(name, title, series, points, highest, plot, usual, redraw) {
  const index = at[name] === null ? null : Math.min(at[name], points.length - 1);
  const move = (to) => {
    const next = to === null ? null : Math.max(0, Math.min(points.length - 1, to));
    if (next === at[name]) return;
    at[name] = next;
    redraw();
  };
  const drawing = h(
    "svg.plot",
    {
      role: "img",
      tabindex: 0,
      width: "100%",
      height: HEIGHT + LABELS,
      "aria-label": summary(title, series, points),
      on: {
        pointermove: (event) => move(stepUnder(event, points.length)),
        pointerleave: () => move(null),
        blur: () => move(null),
        keydown: (event) => {
          const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
          if (!step) return;
          event.preventDefault();
          move((index ?? points.length) + step);
        },
      },
    },
    [0, 0.5, 1].map((part) =>
      h("line.grid", { key: part, x1: 0, x2: "100%", y1: HEIGHT * part + 0.5, y2: HEIGHT * part + 0.5 }),
    ),
    plot,
    index === null ? null : cursor(index, points.length),
    [1, 0.5].map((part) => h("text.scale", { key: part, x: 2, y: HEIGHT * (1 - part) + 12 }, rate(highest * part))),
    marks(points),
  );
  const looked = index === null ? usual : stepTold(points[index], name === "ended");
  return h("figure.chart", { key: name }, legend(series, looked), drawing, figures(title, series, points));
}

function cursor(index, steps) {
  return h("rect.cursor", { x: `${(index / steps) * 100}%`, width: `${100 / steps}%`, y: 0, height: HEIGHT });
}

function stepUnder(event, steps) {
  const box = event.currentTarget.getBoundingClientRect();
  return Math.floor(((event.clientX - box.left) / box.width) * steps);
}

function marks(points) {
  return [...Array(MARKS).keys()].map((mark) => {
    const index = Math.round((mark * (points.length - 1)) / (MARKS - 1));
    const anchor = { 0: "start", [MARKS - 1]: "end" }[mark] ?? "middle";
    const x = { 0: "0", [MARKS - 1]: "100%" }[mark] ?? `${((index + 0.5) / points.length) * 100}%`;
    const text = points[index] ? minuteOf(new Date(points[index].at)) : "";
    return h("text.mark", { key: mark, x, y: HEIGHT + 14, "text-anchor": anchor }, text);
  });
}

const stepTold = ({ at: moment, values }, isRate) => ({
  figures: values,
  of: `${isRate ? "a minute " : ""}at ${minuteOf(new Date(moment))}`,
});

/** What the colours mean, with the figures of the selected step, or the usual figures if none is selected. */
function legend(series, looked) {
  return h(
    "figcaption.legend",
    {},
    series.map(([name, text], place) =>
      h("span", { key: name }, h(`i.swatch.swatch-${name}`), `${text} `, h("b", {}, rate(looked.figures[place]))),
    ),
    h("span.legend-time", {}, looked.of),
  );
}

function summary(title, series, points) {
  const parts = series.map(([, text], place) => {
    const values = points.map((point) => point.values[place]);
    return `${text}: at most ${rate(Math.max(0, ...values))}, now ${rate(values.at(-1) ?? 0)}`;
  });
  return `${title}. ${parts.join("; ")}. The arrow keys move through the time.`;
}

/** The same figures as a table, for users who cannot or do not want to read a drawing; without empty steps. */
function figures(title, series, points) {
  const told = points.filter(({ values }) => values.some(Boolean));
  const rows = told.map(({ at: moment, values }) =>
    h(
      "tr",
      { key: moment },
      h("th", { scope: "row" }, minuteOf(new Date(moment))),
      values.map((value) => h("td", {}, rate(value))),
    ),
  );
  return h(
    "details.figures",
    {},
    h("summary", {}, "Figures"),
    told.length
      ? h(
          "table",
          {},
          h("caption.unseen", {}, title),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, "from"),
              series.map(([, text]) => h("th", { scope: "col" }, text)),
            ),
          ),
          h("tbody", {}, rows),
        )
      : h("p", {}, `Nothing in ${number(points.length)} steps.`),
  );
}

/** The end of the scale: the smallest of 1, 2, 4, 5, 10, 20 … that is not below the highest value. */
function niceTop(highest) {
  if (highest <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 4, 5, 10].map((step) => step * power).find((top) => top >= highest);
}
