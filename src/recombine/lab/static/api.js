// Requests to the lab's server; each carries the token of the page's address.

const token = new URLSearchParams(location.search).get("token") || "";
export const visitor = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");

// A tab keeps its table when it is reloaded.
const tab = sessionStorage.getItem("tab") || visitor;
sessionStorage.setItem("tab", tab);

const url = (path, query = {}) => `/api/${path}?${new URLSearchParams({ token, tab, ...query })}`;

/** Send JSON (or text) and return JSON; a refusal is thrown with its sentence. */
export async function post(path, body, query = {}) {
  const response = await reach(url(path, query), { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) });
  return path === "export" && response.ok ? response.blob() : read(response);
}

export const worlds = async () => read(await reach(url("worlds")));

async function reach(address, options = {}) {
  try { return await fetch(address, options); } catch { throw Object.assign(new Error("The lab's server does not respond."), { offline: true }); }
}

async function read(response) {
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Listen to the training of this page. */
export function listen(hear, lost) {
  const source = new EventSource(url("events", { visitor }));
  source.onmessage = (event) => hear(JSON.parse(event.data));
  source.addEventListener("idle", () => source.close());
  source.onerror = () => { source.close(); lost(); };
  return source;
}
