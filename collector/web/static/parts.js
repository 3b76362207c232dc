// Partial updates: fetch a page and exchange a part of the shown one. Forms with input, focus and open details stay.
// While the server is unreachable, requests are repeated, and a strip says since when.

const MOST_WAIT_MS = 30_000; // between two attempts; a guess
const AWAY = [502, 503, 504];

const waiting = new Set(); // functions that end a pause
const failing = new Set(); // requests without a response so far, and parts without a session
let strip = null;

export const retry = () => [...waiting].forEach((wake) => wake());

function pause(ms, signal) {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      waiting.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    waiting.add(wake);
    signal?.addEventListener("abort", wake, { once: true });
  });
}

function showStrip(text, label, act) {
  if (strip) return;
  strip = Object.assign(document.createElement("div"), { className: "away", textContent: `${text} since ${new Date().toTimeString().slice(0, 5)}. ` });
  strip.setAttribute("role", "alert");
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
  button.addEventListener("click", act);
  strip.append(button);
  document.body.prepend(strip);
}

function note(request, isAway) {
  if (isAway) failing.add(request);
  else failing.delete(request);
  if (isAway) showStrip("Disconnected", "Try again", retry);
  else if (!failing.size) {
    strip?.remove();
    strip = null;
  }
}

// Fetch a text, with retries until there is a response. Only an abort of `signal` rejects.
export async function load(address, { signal, ...options } = {}) {
  const request = {};
  try {
    for (let wait = 1000; ; wait = Math.min(2 * wait, MOST_WAIT_MS)) {
      try {
        const answer = await fetch(address, { signal, ...options });
        const { ok, redirected, status } = answer;
        if (!AWAY.includes(status)) return { isOk: ok && !redirected, redirected, status, text: await answer.text() };
      } catch (problem) {
        if (signal?.aborted) throw problem;
      }
      note(request, true);
      await pause(wait, signal);
      signal?.throwIfAborted();
    }
  } finally {
    note(request, false);
  }
}

export const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

// Fetch a page; null if the server refuses it, such as after the end of a session.
export async function loadPage(address, options) {
  const answer = await load(address, options);
  return answer.isOk ? parsed(answer.text) : null;
}

// Make a function that sends a form with `do=what` and passes on the response, one request at a time: input that was
// changed meanwhile is sent after it.
export function sender(form, what, show) {
  let isSending = false;
  let again = false;
  return async () => {
    again = isSending;
    if (isSending) return;
    isSending = true;
    do {
      again = false;
      const body = new URLSearchParams(new FormData(form));
      body.set("do", what);
      show(await load(form.action, { method: "POST", body }));
    } while (again);
    isSending = false;
  };
}

// A form that is sent by POST keeps what was entered in it until it is sent or reset.
function isChanged(field) {
  if (!field.matches("select")) return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
  return field.selectedIndex !== Math.max([...field.options].findIndex((option) => option.defaultSelected), 0);
}

export const isTyped = (place) => [...place.querySelectorAll("form[method=post] :is(input, select, textarea)")].some(isChanged);

const inPlaceOf = new WeakMap();
document.addEventListener("reset", (event) => {
  const fresh = inPlaceOf.get(event.target);
  if (fresh) event.target.replaceWith(fresh);
});

export function exchange(place, nodes) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const held = document.createDocumentFragment();
  held.append(...nodes);
  for (const form of place.querySelectorAll("form[method=post]")) {
    if (!isTyped(form)) continue;
    const fresh = [...held.querySelectorAll("form[method=post]")].find((each) => each.action === form.action);
    if (!fresh) continue;
    fresh.replaceWith(form);
    inPlaceOf.set(form, fresh);
  }
  place.replaceChildren(held);
  const href = focused?.getAttribute("href");
  const same = focused?.isConnected ? focused : href && [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
  same?.focus({ preventScroll: true });
  place.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
}

// Exchange a part for a newer version of itself.
export function renew(place, fresh) {
  const chosen = place.querySelector(".chosen")?.id;
  const opened = [...place.querySelectorAll("details")].map((each) => each.open);
  exchange(place, fresh.childNodes);
  place.querySelectorAll("details").forEach((each, at) => { each.open ||= opened[at] ?? false; });
  if (chosen) document.getElementById(chosen)?.classList.add("chosen");
}

// The number of open alerts is in the title and the menu of each page.
function showAlerts(page) {
  document.title = page.title;
  const fresh = page.querySelectorAll("[data-alerts]");
  document.querySelectorAll("[data-alerts]").forEach((each, at) => each.replaceChildren(...(fresh[at]?.childNodes ?? [])));
}

// An element with data-live is renewed from that URL every data-every seconds, unless a listener of "fresh" prevents it.
async function refresh(place) {
  const answer = await load(place.dataset.live);
  if (answer.redirected) {
    failing.add(place); // so that the strip stays
    showStrip("Signed out", "Sign in", () => location.reload());
  } else note(place, false);
  if (!answer.isOk || !place.isConnected) return;
  const page = parsed(answer.text);
  const fresh = page.getElementById(place.id);
  showAlerts(page);
  if ("untilGone" in place.dataset) {
    if (!fresh) location.reload(); // the page has changed
  } else if (fresh && place.dispatchEvent(new CustomEvent("fresh", { detail: fresh, cancelable: true }))) renew(place, fresh);
}

async function keepLive(place) {
  while (place.isConnected) {
    await pause(1000 * Number(place.dataset.every || 3));
    if (!document.hidden) await refresh(place);
  }
}

document.querySelectorAll("[data-live]").forEach(keepLive);
document.addEventListener("visibilitychange", retry); // a hidden page is not refreshed
addEventListener("online", retry);
addEventListener("pageshow", (event) => event.persisted && retry());

// A short message, such as the result of a key.
export function say(text) {
  const line = document.getElementById("said");
  line.textContent = text;
  setTimeout(() => line.textContent === text && (line.textContent = ""), 6000);
}
