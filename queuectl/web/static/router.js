// Where one is: the address after the #, so that every view and every filter can be kept as a bookmark.

/** `#/jobs?state=dead` is {path: ["jobs"], filters: {state: "dead"}}. */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    filters: Object.fromEntries(new URLSearchParams(query ?? "")),
  };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const address = (path, filters = {}) => {
  const told = Object.entries(filters).filter(([, value]) => value);
  return `#/${path}${told.length ? `?${new URLSearchParams(told)}` : ""}`;
};

/** Go on typing in the same place: the address follows, the way back stays one step. */
export function replace(target) {
  history.replaceState(null, "", target);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export const go = (target) => (location.hash = target);
