// The keys: each script declares its own with `bind`, and the help (?) lists those that have an effect on the page.

import { say } from "./parts.js";

const bound = [];
const PAUSE_MS = 1500; // between the two keys of a sequence; a guess

// `act` is a function, or the selector of an element: a field gets the focus, anything else a click. Without `act`, the
// key works elsewhere, and is only listed.
export function bind(keys, text, act) {
  bound.push({ keys: keys.split(", "), text, act });
}

const target = ({ act }) => (typeof act === "string" ? document.querySelector(act) : act);
const boundTo = (key) => bound.find((each) => each.keys.includes(key) && target(each));

function run(found) {
  if (typeof found === "function") found();
  else if (found.matches("input, textarea, select")) found.focus();
  else found.click();
}

const TYPING = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio])";
let begun = "";
let begunAt = 0;

// The Latin letter of a key on a layout with other letters.
function letterOf({ key, code, shiftKey }) {
  if (!/^Key[A-Z]$/.test(code) || key.length > 1 || key <= "~") return key;
  return shiftKey ? code[3] : code[3].toLowerCase();
}

document.addEventListener("keydown", (event) => {
  const key = letterOf(event);
  if ((event.ctrlKey || event.metaKey) && !event.shiftKey && key.toLowerCase() === "k" && document.querySelector("[data-palette]")) {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (event.target.closest(TYPING)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const hit = (event.timeStamp - begunAt < PAUSE_MS && boundTo(begun + key)) || boundTo(key);
  begun = hit ? "" : `${key} `;
  begunAt = event.timeStamp;
  if (!hit || (event.repeat && typeof hit.act === "string") || (event.key === "Enter" && event.target.closest("button, a, summary"))) return;
  event.preventDefault();
  run(target(hit));
});

function openHelp() {
  const isGo = ({ keys }) => keys[0].startsWith("g ");
  const shown = bound.filter((each) => !each.act || target(each)).sort((one, other) => isGo(one) - isGo(other));
  const lines = shown.flatMap(({ keys, text }) => {
    const term = document.createElement("dt");
    keys.forEach((key) => key.split(" ").forEach((each) => term.append(Object.assign(document.createElement("kbd"), { textContent: each }), " ")));
    return [term, Object.assign(document.createElement("dd"), { textContent: text })];
  });
  const help = document.getElementById("help");
  help.querySelector("dl").replaceChildren(...lines);
  help.showModal();
}

function openPalette() {
  document.getElementById("help").close();
  return import("./palette.js").then(({ open }) => open(), () => say("The palette cannot be loaded: the server does not respond."));
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-help]")) openHelp();
  if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openPalette();
});

bind("?", "this help", openHelp);
if (document.querySelector("[data-palette]")) bind("Ctrl+K", "go to a page, a project, a view or a trace");
bind("/", "search", "[data-search]");
bind("u", "up, to the list", "[data-up]");
bind("J", "next trace", "[data-trace=next]");
bind("K", "previous trace", "[data-trace=previous]");
for (const link of document.querySelectorAll("[data-go]")) bind(`g ${link.dataset.go}`, link.dataset.name, `[data-go="${link.dataset.go}"]`);

// A chart and a list of values are one stop of the Tab key; arrow keys move inside.
const GROUPS = ".picture svg[role=group], .values section";
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };

function gather(place) {
  for (const group of place.querySelectorAll(GROUPS)) {
    const links = [...group.querySelectorAll("a")];
    const first = links.find((link) => link.hasAttribute("aria-current")) ?? links[0];
    for (const link of links) link.setAttribute("tabindex", link === first ? 0 : -1);
  }
}
gather(document);
document.addEventListener("shown", (event) => gather(event.target));

document.addEventListener("keydown", (event) => {
  const [group, step] = [event.target.closest(GROUPS), STEPS[event.key]];
  if (!group || !step || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const links = [...group.querySelectorAll("a")];
  const now = links.indexOf(event.target);
  const next = Math.min(Math.max(now + step, 0), links.length - 1);
  links[now]?.setAttribute("tabindex", -1);
  links[next].setAttribute("tabindex", 0);
  links[next].focus();
  event.preventDefault();
});
