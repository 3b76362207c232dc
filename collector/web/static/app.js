// Optional enhancements: the pages also work without scripts.

import { bind } from "./keys.js";
import "./parts.js";

const here = document.documentElement;
here.classList.add("scripted");

document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest" });

// Lists: an element with data-list holds rows with data-row, each of which has one link with data-open.
const rows = () => [...document.querySelectorAll("[data-list] [data-row]")].filter((row) => row.offsetParent !== null);

function move(step) {
  const list = document.querySelector("[data-list]");
  if (list && !list.dispatchEvent(new CustomEvent("step", { detail: step, cancelable: true }))) return; // the list handles the step
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("chosen"));
  const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
  if (now >= 0) all[now].classList.remove("chosen");
  next.classList.add("chosen");
  next.querySelector("[data-open]")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  next.dispatchEvent(new CustomEvent("chosen", { bubbles: true }));
}

if (document.querySelector("[data-list]")) {
  bind("j", "next in a list", () => move(1));
  bind("k", "previous in a list", () => move(-1));
  bind("Enter", "open");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy], [data-copy-text]");
  if (button) copy(button, button.dataset.copyText ?? new URL(button.dataset.copy, location.href).href); // "": the current URL
});

// Copy a text, and show the result on the button. Without TLS, browsers only have execCommand.
export async function copy(button, text) {
  const before = button.textContent;
  let isDone = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  if (!isDone) {
    const field = Object.assign(document.createElement("textarea"), { value: text, className: "sr" });
    document.body.append(field);
    field.select();
    isDone = document.execCommand("copy");
    field.remove();
  }
  button.textContent = isDone ? "Copied" : "Not copied";
  setTimeout(() => (button.textContent = before), 1500);
}

// Show this server's URL as the browser knows it: not every proxy that terminates TLS forwards it.
function tellOrigin() {
  for (const place of document.querySelectorAll("[data-origin]")) place.textContent = location.origin;
}
tellOrigin();
document.addEventListener("shown", tellOrigin);

// Show times in the browser's time zone; their title is in UTC.
const isElsewhere = new Date().getTimezoneOffset() !== 0;
const local = (date) => new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace("T", " ");

function tellTimes(place) {
  if (!isElsewhere) return;
  for (const time of place.querySelectorAll("time[datetime]:not([data-local])")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.dataset.local = "1";
    if (time.classList.contains("ago")) time.title = `${local(date)}, ${time.title}`;
    else time.textContent = local(date);
  }
}
tellTimes(document);
document.addEventListener("shown", (event) => tellTimes(event.target));

// Theme: system, light or dark; a cookie keeps the choice for the next page.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-theme-switch]");
  if (!button) return;
  const isDark = getComputedStyle(here).colorScheme === "dark"
    || (getComputedStyle(here).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  here.dataset.theme = isDark ? "light" : "dark";
  document.cookie = `theme=${here.dataset.theme}; path=${here.dataset.root ?? "/"}; max-age=31536000; samesite=lax`;
  document.dispatchEvent(new CustomEvent("themed"));
});

// "Up" returns to the list with its filters, and to the row that was opened.
const memory = (key, value) => {
  try {
    if (value === undefined) return sessionStorage.getItem(key);
    sessionStorage.setItem(key, value);
  } catch {
    // without storage, "up" leads to the list without its filters
  }
  return null;
};
const list = document.querySelector("[data-remembered]");
if (list) {
  const key = `list ${location.pathname}`;
  memory(key, location.pathname + location.search);
  list.addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]");
    if (row && event.target.closest("[data-open]")) memory(`${key} row`, row.id);
  });
  const row = document.getElementById(memory(`${key} row`) ?? "");
  if (row) {
    row.classList.add("chosen");
    row.scrollIntoView({ block: "nearest" });
  }
}
const up = document.querySelector("a[data-up]");
const left = up && memory(`list ${up.pathname}`);
if (left) up.href = left;

// A button with data-confirm asks for confirmation; one with data-drops does so if those fields, which it does not
// send, are not empty.
document.addEventListener("submit", (event) => {
  const { confirm: question, drops } = event.submitter?.dataset ?? {};
  const isTyped = drops && [...document.querySelectorAll(drops)].some((field) => field.value !== field.defaultValue);
  if (question && !confirm(question)) event.preventDefault();
  else if (isTyped && !confirm("This discards your input. Continue?")) event.preventDefault();
}, { capture: true });

// A page with typed text that was not sent is left only after a confirmation by the browser.
addEventListener("submit", (event) => {
  if (!event.defaultPrevented) event.target.dataset.sent = "";
});
addEventListener("beforeunload", (event) => {
  const fields = document.querySelectorAll("form[method=post]:not([data-sent]) :is(textarea, input:not([type]), input[type=text])");
  if ([...fields].some((field) => field.value !== field.defaultValue)) event.preventDefault();
});

// Typing in a field with data-chooses selects the option of that id.
document.addEventListener("input", (event) => {
  const option = document.getElementById(event.target.dataset.chooses ?? "");
  if (option) option.checked = true;
});

// A form with data-instant is sent as soon as one of its selects changes.
document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-instant] select")) event.target.form.requestSubmit();
});

// Reset fields whose values are in the URL: a page from the back-forward cache keeps them as they were left. For a
// reloaded page, autocomplete="off" does the same. Checked rows stay checked.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[method=get]:not([data-selection])")) form.reset();
});

// Close a menu of actions on a click outside and on Esc.
const closeMenus = (but) => {
  for (const menu of document.querySelectorAll("details.more[open]")) if (menu !== but) menu.open = false;
};
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.more")));
document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus());
