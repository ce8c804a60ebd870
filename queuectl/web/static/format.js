// Numbers, durations and times as people read them: the same words as on the command line.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);

const MOST_COUNTED = 1000;

/** A count that the server stops at MOST_COUNTED: `1,000+`. */
export const upTo = (value) => (value < MOST_COUNTED ? number(value) : `${number(MOST_COUNTED)}+`);

/** A rate, with one decimal place only while it is small. */
export const rate = (value) => (value < 10 ? tenths : whole).format(value);

/** `1 job`, `2 jobs`, `1,000 jobs`. */
export const count = (value, noun, plural = `${noun}s`) => `${number(value)} ${value === 1 ? noun : plural}`;

/** `3 ms`, `0.42 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`: as `spoken` in times.py says it. */
export function duration(seconds) {
  if (seconds < 0.0995) return `${Math.max(0, seconds * 1000).toFixed(0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  const all = Math.floor(seconds);
  if (all < 60) return `${all} s`;
  if (all < 3600) return inTwo(Math.floor(all / 60), "min", all % 60, "s");
  if (all < 86400) return inTwo(Math.floor(all / 3600), "h", Math.floor((all % 3600) / 60), "min");
  return inTwo(Math.floor(all / 86400), "d", Math.floor((all % 86400) / 3600), "h");
}

const inTwo = (large, unit, small, part) => `${large} ${unit} ${small} ${part}`;

/** A duration without hundredths, for something that still runs: as `roughly` in times.py says it. */
export const roughly = (seconds) =>
  seconds < 59.5 ? `${Math.max(0, Math.round(seconds))} s` : duration(seconds);

/** A duration as a user would type it: `1h30m`. */
export function asTyped(seconds) {
  let left = seconds;
  let text = "";
  for (const [unit, size] of Object.entries({ d: 86400, h: 3600, m: 60 })) {
    if (left >= size) text += `${Math.floor(left / size)}${unit}`;
    left %= size;
  }
  return left || !text ? `${text}${left}s` : text;
}

/** How far a moment is from now: `now`, `3 min ago`, `in 2 h 5 min`. */
export function distance(moment, now) {
  const seconds = (moment - now) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const far = Math.abs(seconds);
  const text = far >= 60 && far < 3600 ? `${Math.floor(far / 60)} min` : roughly(far);
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

const two = (value) => String(value).padStart(2, "0");

const dayOf = (moment) => `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;

const timeOf = (moment) => `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;

export const minuteOf = (moment) => `${two(moment.getHours())}:${two(moment.getMinutes())}`;

/** Local time to the second, with its UTC offset, so that the time zone is clear. */
export function absolute(moment) {
  const minutes = -moment.getTimezoneOffset();
  const far = Math.abs(minutes);
  const offset = `${two(Math.floor(far / 60))}:${two(far % 60)}`;
  return `${dayOf(moment)} ${timeOf(moment)} (UTC${minutes < 0 ? "−" : "+"}${offset})`;
}

/** A time near now, with the day only if it is not today. */
export function clock(moment, now) {
  const isToday = dayOf(moment) === dayOf(new Date(now));
  return isToday ? timeOf(moment) : `${dayOf(moment)} ${minuteOf(moment)}`;
}

export function bytes(value) {
  if (value < 1e6) return `${whole.format(Math.ceil(value / 1000))} kB`;
  return value < 1e9 ? `${whole.format(value / 1e6)} MB` : `${tenths.format(value / 1e9)} GB`;
}

/** A command on one line, as a user would type it. */
export function commandLine(command) {
  if (!Array.isArray(command)) return command;
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

export const oneLine = (text) => text.split(/\s+/).filter(Boolean).join(" ");
