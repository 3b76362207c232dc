// What makes the pages quicker to use; without it they read the same.

const here = document.documentElement;
here.classList.add("scripted");

document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

// Lists: an element with data-list holds rows with data-row, each of which has one link with data-open.
const rows = () => [...document.querySelectorAll("[data-list] [data-row]")].filter((row) => row.offsetParent !== null);

function move(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("chosen"));
  const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
  if (now >= 0) all[now].classList.remove("chosen");
  next.classList.add("chosen");
  next.querySelector("[data-open]")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

const help = document.getElementById("help");
const actions = {
  j: () => move(1),
  k: () => move(-1),
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => help.showModal(),
  u: () => document.querySelector("[data-up]")?.click(),
};

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const action = actions[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-help]")) help.showModal();
  const button = event.target.closest("[data-copy]");
  if (button) {
    navigator.clipboard?.writeText(new URL(button.dataset.copy, location.href).href);
    button.textContent = "Copied";
  }
});

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// A form with data-instant is sent as soon as one of its selects changes.
document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-instant] select")) event.target.form.requestSubmit();
});

// Live: an element with data-live asks for that address every so many seconds, and shows what came in its place.
async function refresh(place) {
  if (document.hidden || !place.isConnected) return;
  const answer = await fetch(place.dataset.live, { headers: { "x-requested-part": "1" } }).catch(() => null);
  if (!answer?.ok) return;
  const held = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = held.getElementById(place.id);
  if (!fresh) return;
  const chosen = place.querySelector(".chosen")?.id;
  const opened = [...place.querySelectorAll("details")].map((each) => each.open);
  place.replaceChildren(...fresh.childNodes);
  place.querySelectorAll("details").forEach((each, at) => { each.open ||= opened[at] ?? false; });
  if (chosen) document.getElementById(chosen)?.classList.add("chosen");
}

for (const place of document.querySelectorAll("[data-live]")) {
  setInterval(() => refresh(place), 1000 * Number(place.dataset.every || 3));
}
