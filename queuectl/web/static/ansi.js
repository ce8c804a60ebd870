// Shows a job's output as a terminal would: colours and styles, and everything else as plain text.
//
// All output becomes text nodes. Escape sequences other than colours and styles are left out; of a line that is
// overwritten after a carriage return, the last text is shown.

const ESCAPE = "\u001b";
// A complete sequence: numbers up to a letter (CSI), text up to a terminator (OSC, DCS and others), or a short one.
const SEQUENCES = [
  /\[[0-?]*[ -/]*[@-~]/,
  /\][^\u0007\u001b\n]*(?:\u0007|\u001b\\)/,
  /[PX^_][^\u001b]*\u001b\\/,
  /(?![[\]PX^_])[ -/]*[0-~]/,
];
const SEQUENCE = new RegExp(`^${ESCAPE}(?:${SEQUENCES.map(({ source }) => source).join("|")})`);
// The beginning of a sequence that more text may complete. An OSC must end on its line, or it would swallow the rest.
const BEGINNINGS = [/\[[0-?]*[ -/]*/, /\][^\u0007\u001b\n]*\u001b?/, /[PX^_][^\u001b]*\u001b?/, /[ -/]*/];
const BEGUN = new RegExp(`^${ESCAPE}(?:${BEGINNINGS.map(({ source }) => source).join("|")})$`);
const LONGEST_SEQUENCE = 4096;
const PLAIN = /^[^\u0000-\u0008\u000b-\u001f\u007f\n]+/;
const PLAIN_STYLE = Object.freeze({});
const STYLES = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };

/** Reads output piece by piece; the pieces may be cut anywhere. */
export class Reader {
  #rest = "";
  #style = PLAIN_STYLE;
  #pieces = [];
  #returned = false;

  /** The lines that this text completes, each a list of {text, style}. The incomplete last line is `current`. */
  read(text) {
    const lines = [];
    let left = this.#rest + text;
    this.#rest = "";
    while (left) {
      const plain = PLAIN.exec(left);
      if (plain) {
        this.#write(plain[0]);
        left = left.slice(plain[0].length);
      } else if (left[0] === "\n") {
        lines.push(this.#pieces);
        this.#pieces = [];
        this.#returned = false;
        left = left.slice(1);
      } else if (left[0] === "\r") {
        this.#returned = true;
        left = left.slice(1);
      } else if (left[0] === ESCAPE) {
        const sequence = SEQUENCE.exec(left);
        if (!sequence && left.length < LONGEST_SEQUENCE && BEGUN.test(left)) {
          this.#rest = left; // the next piece may complete it
          break;
        }
        const [whole] = sequence ?? [ESCAPE];
        if (whole.startsWith("\u001b[") && whole.endsWith("m")) this.#style = styled(this.#style, whole.slice(2, -1));
        left = left.slice(whole.length);
      } else {
        left = left.slice(1); // a control character such as a bell or NUL, which is invisible
      }
    }
    return lines;
  }

  get current() {
    return this.#pieces;
  }

  #write(text) {
    if (this.#returned) {
      this.#pieces = [];
      this.#returned = false;
    }
    this.#pieces.push({ text, style: this.#style });
  }
}

const GROUNDS = { 38: "fore", 48: "back", 58: null }; // 58 is the colour of an underline, which is not shown

/** The style after a sequence of numbers such as `1;31` or `38;2;255;128;0`; numbers joined by colons are one code. */
function styled(before, numbers) {
  const groups = numbers.split(";").map((group) => group.split(":").map(Number));
  let style = before;
  for (let place = 0; place < groups.length; place += 1) {
    const [code, ...parts] = groups[place];
    if (code in GROUNDS) {
      const following = groups.slice(place + 1).map(([first]) => first);
      const [value, taken] = parts.length ? [inGroup(parts), 0] : extended(following);
      if (value !== null && GROUNDS[code]) style = { ...style, [GROUNDS[code]]: value };
      place += taken;
    } else if (!parts.length) {
      style = after(style, code);
    } else if (code === 4) {
      style = { ...style, underline: parts[0] > 0 }; // straight, double, curly …
    }
  }
  return style;
}

/** The colour of `38:5:n`, `38:2:r:g:b` or `38:2::r:g:b`, which has a place for a colour space. */
function inGroup([kind, ...values]) {
  return extended([kind, ...(kind === 2 && values.length > 3 ? values.slice(1) : values)])[0];
}

function after(style, code) {
  if (code === 0) return PLAIN_STYLE;
  if (STYLES[code]) return { ...style, [STYLES[code]]: true };
  if (code === 22) return { ...style, bold: false, dim: false };
  if (STYLES[code - 20]) return { ...style, [STYLES[code - 20]]: false };
  if (code >= 30 && code <= 37) return { ...style, fore: code - 30 };
  if (code >= 90 && code <= 97) return { ...style, fore: code - 82 };
  if (code >= 40 && code <= 47) return { ...style, back: code - 40 };
  if (code >= 100 && code <= 107) return { ...style, back: code - 92 };
  if (code === 39) return { ...style, fore: undefined };
  if (code === 49) return { ...style, back: undefined };
  return style;
}

/** The colour after 38 or 48 (a theme colour if below 16, otherwise an exact one), and how many numbers it used. */
function extended([kind, ...values]) {
  if (kind === 5) return [palette(values[0]), 2];
  if (kind === 2) return [exact(values.slice(0, 3)), 4];
  return [null, 0];
}

function palette(index) {
  if (!(index >= 0 && index < 256)) return null;
  if (index < 16) return index;
  if (index >= 232) return exact(Array(3).fill(8 + (index - 232) * 10));
  const level = (value) => (value ? 55 + value * 40 : 0);
  const cube = index - 16;
  return exact([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level));
}

const exact = (values) =>
  values.length === 3 && values.every((value) => value >= 0 && value < 256) ? `rgb(${values.join(" ")})` : null;

/** An element for a line; its pieces become text nodes, never HTML. */
export function lineElement(pieces) {
  const line = document.createElement("div");
  fill(line, pieces);
  return line;
}

export function fill(line, pieces) {
  line.replaceChildren(...pieces.map(({ text, style }) => pieceNode(text, style)));
}

function pieceNode(text, style) {
  if (!Object.values(style).some((value) => value !== undefined && value !== false))
    return document.createTextNode(text);
  const span = document.createElement("span");
  span.append(text);
  for (const name of Object.values(STYLES)) span.classList.toggle(`ansi-${name}`, Boolean(style[name]));
  colour(span, "color", "fore", style.fore);
  colour(span, "background-color", "back", style.back);
  return span;
}

function colour(span, property, ground, value) {
  if (typeof value === "number") span.classList.add(`ansi-${ground}-${value}`);
  else if (value) span.style.setProperty(property, value);
}
