// What forms are made of: a labelled field with a hint, and the button that sends them off.

import { h } from "./dom.js";

/** A field with its name above and, below, what it takes. */
export function field(label, input, hint) {
  return h("label.field", { key: label }, h("span", {}, label), input, hint ? h("small", {}, hint) : null);
}

export const submitButton = (label, { disabled = false } = {}) =>
  h("button.button.primary", { type: "submit", disabled }, h("span", {}, label));
