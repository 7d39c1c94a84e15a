// Parts of a page that change (data-live) are asked for again when the server says that something has changed.
const parts = () => document.querySelectorAll("[data-live][id]");

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts()) {
    const next = fresh.getElementById(part.id);
    // What somebody is typing into, or has open, stays.
    const busy = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
    if (next === null || busy || next.innerHTML === part.innerHTML) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
    part.replaceChildren(...next.childNodes);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
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
