// Requests to the server, to read and to change: JSON in, JSON out, and errors with the server's messages.

export class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

export const isReadOnly = meta("read-only") === "1";
export const version = meta("version");

export async function get(path, parameters = {}) {
  return answer(await send(path + query(parameters)));
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": meta("csrf-token") };
  return answer(await send(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

/** The current answer, or null if the answer with this ETag is still current. */
export async function getIfChanged(path, tag) {
  const response = await send(path, tag ? { headers: { "If-None-Match": tag } } : {});
  if (response.status === 304) return null;
  return { tag: response.headers.get("ETag"), body: await answer(response) };
}

/** The parameters that have a value, as a query string. */
export function query(parameters) {
  const told = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return told.length ? `?${new URLSearchParams(told)}` : "";
}

export const jobPath = (id) => `/api/jobs/${encodeURIComponent(id)}`;

async function send(path, options = {}) {
  try {
    return await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Error("The server does not answer.");
  }
}

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new ServerError(body.error ?? `The server answered with ${response.status}.`, response.status);
}
