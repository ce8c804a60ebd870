// The parts of forms: a labelled field with a hint, and the button that submits the form.

import { h } from "./dom.js";

/** A field with its label above and a hint below; `beside` is placed next to the input. */
export function field(label, input, { hint, beside, form = "dialog" } = {}) {
  const id = `${form}-${input.props.name}`;
  const named = { ...input, props: { ...input.props, id, "aria-describedby": hint ? `${id}-hint` : null } };
  return h(
    "div.field",
    { key: id },
    h("label", { for: id }, label),
    beside ? h("div.beside", {}, named, beside) : named,
    hint ? h("small", { id: `${id}-hint` }, hint) : null,
  );
}

export const submitButton = (label, { disabled = false } = {}) =>
  h("button.button.primary", { type: "submit", disabled }, h("span", {}, label));
