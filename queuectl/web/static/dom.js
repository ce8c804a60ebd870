// Descriptions of elements, and the function that makes the page match them without replacing existing elements.

const SVG = "http://www.w3.org/2000/svg";
// Properties that a user can change: set when the element is made, and later only when the description changes.
const PROPERTIES = new Set(["value", "checked", "indeterminate", "disabled", "open"]);
const OURS = new Set(["key", "on", "style", "made", "own"]);

const described = new WeakMap();
const listeners = new WeakMap();

/** Describe an element: its tag with classes after dots, its properties, and its children. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flat(children) };
}

/** Make the children of an element match these: a child with the same key or place is kept and updated. */
export function show(parent, ...wanted) {
  const focused = document.activeElement;
  place(parent, flat(wanted));
  // An element that was moved among its siblings has lost the focus.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

/** A flat list; an absent child becomes an empty text, so that its neighbours keep their places. */
function flat(children) {
  return children
    .flat(Infinity)
    .map((child) => (child === null || child === undefined || child === false ? "" : child));
}

function place(parent, wanted) {
  const keys = new Set(wanted.map(keyOf));
  const kept = new Map();
  for (const node of [...parent.childNodes]) {
    const key = keyOf(described.get(node));
    if (key === undefined) continue;
    if (keys.has(key)) kept.set(key, node);
    else node.remove();
  }
  let here = parent.firstChild;
  for (const description of wanted) {
    const key = keyOf(description);
    const old = key === undefined ? here : kept.get(key);
    if (old && isLike(old, description)) {
      if (old === here) here = here.nextSibling;
      else parent.insertBefore(old, here);
      update(old, description);
    } else {
      parent.insertBefore(make(description, parent), here);
    }
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

function keyOf(description) {
  return description?.props?.key;
}

function isLike(node, description) {
  const before = described.get(node);
  if (typeof description !== "object") return node.nodeType === Node.TEXT_NODE;
  return before?.tag === description.tag && before.props.key === description.props.key;
}

function make(description, parent) {
  if (typeof description !== "object") return document.createTextNode(String(description));
  const [name, ...classes] = description.tag.split(".");
  const isSvg = name === "svg" || parent.namespaceURI === SVG;
  const element = isSvg ? document.createElementNS(SVG, name) : document.createElement(name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  update(element, description);
  description.props.made?.(element);
  return element;
}

function update(node, description) {
  if (typeof description !== "object") {
    const text = String(description);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = described.get(node)?.props ?? {};
  const { props } = description;
  described.set(node, description);
  for (const name of Object.keys({ ...before, ...props })) {
    if (!OURS.has(name) && before[name] !== props[name]) set(node, name, props[name], description.tag);
  }
  for (const [name, value] of Object.entries(props.style ?? {})) {
    if (before.style?.[name] !== value) node.style.setProperty(name, value);
  }
  for (const [type, handler] of Object.entries(props.on ?? {})) listen(node, type, handler);
  if (!props.own) place(node, description.children);
}

function set(node, name, value, tag) {
  if (name === "value" && node === document.activeElement) return; // the user is typing there
  if (PROPERTIES.has(name)) node[name] = value ?? "";
  else if (name === "class") node.setAttribute("class", [...tag.split(".").slice(1), value].filter(Boolean).join(" "));
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

/** One listener for each type of event, which calls the handler of the newest description. */
function listen(node, type, handler) {
  if (!listeners.has(node)) listeners.set(node, {});
  const own = listeners.get(node);
  if (!own[type]) node.addEventListener(type, (event) => own[type](event));
  own[type] = handler;
}
