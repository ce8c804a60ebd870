// The current view: the address after the #, so that every view with its filters can be bookmarked.

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

/** Change the address while the user types, without a new step in the browser's history. */
export function replace(target) {
  history.replaceState(null, "", target);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export const go = (target) => (location.hash = target);
