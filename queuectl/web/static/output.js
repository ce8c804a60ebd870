// The output of a try, as text in colours: followed while it runs, and kept at its end until the user scrolls away.

import { Reader, fill, lineElement } from "./ansi.js";
import { get, jobPath } from "./api.js";
import { h } from "./dom.js";
import { oneAtATime } from "./live.js";
import { complain } from "./notices.js";
import { button } from "./parts.js";

const MOST_LINES = 5000;
const TAIL = -256_000; // reading begins this many bytes before the end
const NEAR_END = 40;

const STREAMS = ["stdout", "stderr"];

/** The output of a job: the try and the stream that are shown, and the element that holds the text. */
export function outputOf(id, redraw) {
  const shown = { lease: null, stream: "stdout", isChosen: false, isWrapped: true, follows: true };
  let reading = null;

  /** Start again for another try or stream; otherwise go on where the text ended. */
  function look(lease, stream = shown.isChosen || shown.lease === lease ? shown.stream : STREAMS[0]) {
    if (reading && shown.lease === lease && shown.stream === stream) return;
    Object.assign(shown, { lease, stream, follows: true });
    reading = new Reading(id, lease, stream, reading?.element);
  }

  const load = oneAtATime(async () => {
    let current = reading;
    if (!current) return;
    try {
      await current.goOn();
      if ((await isOnlyInErrors(current)) && current === reading) {
        look(shown.lease, "stderr");
        current = reading;
        await current.goOn();
      }
      if (current === reading && shown.follows) current.toEnd();
    } catch (error) {
      current.note = error.message;
    }
    redraw();
  });

  /** Whether a run has printed to stderr only, such as a traceback; asked once, unless the user has chosen a stream. */
  async function isOnlyInErrors(current) {
    if (shown.isChosen || !current.isEmpty) return false;
    current.isEmpty = false;
    const { size } = await get(`${jobPath(id)}/output`, { lease: shown.lease, stream: "stderr", offset: -1 });
    return size > 0;
  }

  function showIn(element) {
    reading.showIn(element);
    load();
  }

  function choose(stream) {
    shown.isChosen = true;
    look(shown.lease, stream);
    load();
    redraw();
  }

  function draw() {
    return h(
      "div.output",
      {},
      h(
        "div.output-head",
        {},
        h(
          "div.tabs",
          { role: "tablist", "aria-label": "Output", on: { keydown: turn } },
          STREAMS.map((stream) => tab(stream, shown.stream === stream, () => choose(stream))),
        ),
        h("span.spacer", {}),
        button(shown.isWrapped ? "Do not wrap" : "Wrap", () => ((shown.isWrapped = !shown.isWrapped), redraw()), {
          kind: "link",
        }),
        button("To the end", () => ((shown.follows = true), reading?.toEnd(), redraw()), {
          kind: "link",
          disabled: shown.follows,
        }),
        button("Download", () => download(id, shown), { name: "download" }),
      ),
      h("div.printed", {
        own: true,
        id: "printed",
        role: "tabpanel",
        tabindex: 0,
        "aria-label": `${shown.stream} of run ${shown.lease}`,
        class: shown.isWrapped ? "is-wrapped" : "",
        made: showIn,
        on: { scroll: (event) => follow(event.target) },
      }),
      h("p.note", { role: "status" }, reading?.note ?? ""),
    );
  }

  function follow(element) {
    const follows = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;
    if (follows === shown.follows) return;
    shown.follows = follows;
    redraw();
  }

  function turn(event) {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const other = STREAMS.find((stream) => stream !== shown.stream);
    choose(other);
    document.getElementById(`tab-${other}`).focus();
  }

  return { look, load, draw, lease: () => shown.lease };
}

function tab(stream, isSelected, choose) {
  const props = {
    key: stream,
    id: `tab-${stream}`,
    type: "button",
    role: "tab",
    "aria-selected": String(isSelected),
    "aria-controls": "printed",
    tabindex: isSelected ? 0 : -1,
    on: { click: choose },
  };
  return h("button", props, stream);
}

/** One stream of one try: first its end, and then everything that is added. */
class Reading {
  #reader = null;
  #offset = TAIL;
  #lease = null;
  #open = null;
  #isDone = false;
  #isWhole = true;
  isEmpty = false; // the run has ended, and this stream is empty
  note = "";

  constructor(id, lease, stream, element) {
    this.id = id;
    this.parameters = { lease, stream };
    if (element) this.showIn(element);
  }

  showIn(element) {
    this.element = element;
    element.replaceChildren();
  }

  /** Read new output until there is no more for now. When the run has ended, the stored output is read once more. */
  async goOn() {
    while (this.element && !this.#isDone) {
      const found = await get(`${jobPath(this.id)}/output`, { ...this.parameters, offset: this.#offset });
      const isOther = this.#lease !== null && (found.lease !== this.#lease || !found.running);
      if (isOther && this.#offset !== TAIL) {
        this.#offset = TAIL;
        this.#lease = null;
        continue;
      }
      if (this.#offset === TAIL) this.#begin(found);
      this.#add(found.text);
      const isStuck = found.offset === this.#offset; // the rest is an incomplete character, until more is printed
      this.#offset = found.offset;
      this.#lease = found.running ? found.lease : null;
      if (found.offset < found.size && !isStuck) continue;
      this.#isDone = !found.running;
      this.isEmpty = this.#isDone && !found.size;
      break;
    }
    this.note = this.#told();
  }

  #begin({ start }) {
    this.#reader = new Reader();
    this.#open = null;
    this.#isWhole = !start;
    this.element.replaceChildren();
  }

  #add(text) {
    const ended = this.#reader.read(text);
    if (ended.length && this.#open) {
      this.#open.remove(); // the first of the ended lines replaces it
      this.#open = null;
    }
    this.element.append(...ended.slice(-MOST_LINES).map(lineElement));
    if (ended.length > MOST_LINES) this.#isWhole = false;
    if (this.#reader.current.length) {
      if (!this.#open) this.element.append((this.#open = document.createElement("div")));
      fill(this.#open, this.#reader.current);
    }
    this.#forget(this.element.childElementCount - MOST_LINES);
  }

  /** Remove the first lines in one step: a page with a job's whole output would be slow. */
  #forget(many) {
    if (many <= 0) return;
    const range = document.createRange();
    range.setStart(this.element, 0);
    range.setEnd(this.element, many);
    range.deleteContents();
    this.#isWhole = false;
  }

  #told() {
    if (!this.element?.childElementCount)
      return this.#isDone ? "It printed nothing here." : "It has printed nothing here yet.";
    return this.#isWhole ? "" : "The beginning is left out here; it is in the download.";
  }

  toEnd() {
    if (this.element) this.element.scrollTop = this.element.scrollHeight;
  }
}

/** The whole output as a file: read piece by piece from the beginning. */
async function download(id, { lease, stream }) {
  try {
    const pieces = [];
    for (let offset = 0, isMore = true; isMore; ) {
      const found = await get(`${jobPath(id)}/output`, { lease, stream, offset });
      pieces.push(found.text);
      isMore = offset < found.offset && found.offset < found.size;
      offset = found.offset;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(pieces, { type: "text/plain" }));
    link.download = `job-${id}-run-${lease}.${stream}.txt`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    complain(error);
  }
}
