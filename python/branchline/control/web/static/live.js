// Reloads the live parts of a page (data-live) when the server announces a change.
const parts = () => document.querySelectorAll("[data-live][id]");
const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "";
const alike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

// Updates only nodes that differ, so that scroll position, selection, open elements and typed text are kept.
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
    // A moved row has lost the focus.
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
    // The server cannot be reached. The event stream reports when it is reachable again.
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
    // After a reconnect, load changes from the time without a connection.
    if (opened++ > 0) void changed();
  });
  stream.addEventListener("error", () => {
    state.textContent = "not connected";
  });
  stream.addEventListener("changed", () => void changed());
  addEventListener("pagehide", () => stream.close());
}
