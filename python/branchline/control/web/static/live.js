// Parts of a page that change (data-live) are asked for again when the server says that something has changed.
const parts = () => document.querySelectorAll("[data-live][id]");
const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "";
const alike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

// Changes only what differs: the place of the reader, what is selected, what is open and what is being typed all stay.
function change(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  const keyed = new Map([...old.childNodes].map((node) => [keyOf(node), node]).filter(([key]) => key));
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = keyOf(child) ? keyed.get(keyOf(child)) : next && alike(next, child) ? next : undefined;
    if (same === undefined || !alike(same, child)) {
      old.insertBefore(child, next);
      continue;
    }
    if (same === next) next = next.nextSibling;
    else old.insertBefore(same, next);
    change(same, child);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts()) {
    const next = fresh.getElementById(part.id);
    if (next === null || next.innerHTML === part.innerHTML) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    change(part, next);
    // A row that moved has lost it.
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }
}

let waiting = false;
let again = false;

async function changed() {
  if (waiting) {
    again = true;
    return;
  }
  waiting = true;
  try {
    await refresh();
  } catch {
    // The server is away; the stream tells when it is back.
  }
  waiting = false;
  if (again) {
    again = false;
    await changed();
  }
}

if (parts().length > 0) {
  const stream = new EventSource("/events");
  const state = document.getElementById("connection");
  let opened = 0;
  stream.addEventListener("open", () => {
    state.textContent = "live";
    // What changed while it was away.
    if (opened++ > 0) void changed();
  });
  stream.addEventListener("error", () => {
    state.textContent = "not connected";
  });
  stream.addEventListener("changed", () => void changed());
  addEventListener("pagehide", () => stream.close());
}
