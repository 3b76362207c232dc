// The rule editor: update the preview while editing. Without scripts, a button does it.

import { parsed, sender } from "./parts.js";

const form = document.querySelector("form[data-preview]");
const WAIT_MS = 600;
const SETTLE_MS = 200;
const MAX_ROWS = 40; // same limit as the server
let waiting = 0;

// Show the errors of a field once it has lost focus or the rule is saved, not while typing.
// Show errors of the settings as a whole once one of them has lost focus.
const ownerOf = (place) => place.closest(".condition")
  ?? (place.id === "wrong-config" ? document.getElementById("settings") : form.querySelector(`[aria-describedby~="${CSS.escape(place.id)}"]`));
const fieldsOf = (owner) => (owner.matches(".condition") ? [...owner.querySelectorAll("input")] : owner.matches("input, select, textarea") ? [owner] : []);

function showErrors() {
  let held = 0;
  for (const place of form.querySelectorAll(".wrong")) {
    const owner = ownerOf(place);
    const isShown = "sent" in form.dataset || !owner || "left" in owner.dataset;
    const isWrong = place.textContent.trim() !== "";
    place.hidden = !isShown;
    if (isWrong && isShown) place.closest("details")?.setAttribute("open", "");
    held += isWrong && !isShown;
    for (const field of owner ? fieldsOf(owner) : []) {
      if (isWrong && isShown) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
  }
  const counted = document.querySelector("#problems .counted");
  if (counted) counted.hidden = held > 0;
}

// Replace the errors and the preview by those of the response. Input stays as it is.
function show(answer) {
  const [now, next] = [document, answer].map((held) => held.getElementById("settings"));
  if (now && next && now.dataset.of !== next.dataset.of) {
    now.replaceWith(next); // brings its own error elements, so those below are not replaced twice
    form.elements.shown.value = next.dataset.of;
  }
  for (const fresh of answer.querySelectorAll("[data-part]")) {
    document.getElementById(fresh.id)?.replaceWith(fresh);
  }
  showErrors();
}

function tell(message) {
  const line = document.createElement("p");
  line.textContent = message;
  document.getElementById("preview")?.replaceChildren(line);
}

const ask = sender(form, "preview", ({ isOk, status, text }) => (isOk ? show(parsed(text)) : tell(`The preview failed (status ${status}).`)));

async function look() {
  document.getElementById("preview")?.classList.add("stale");
  await ask();
  document.getElementById("preview")?.classList.remove("stale");
}

function lookSoon(wait = WAIT_MS) {
  clearTimeout(waiting);
  waiting = setTimeout(look, wait);
}

// Number the error elements of conditions like the server, which skips blank rows.
function number() {
  let at = 0;
  for (const row of form.querySelectorAll(".condition")) {
    const isBlank = !row.querySelector("[name=field]").value.trim() && !row.querySelector("[name=value]").value.trim();
    const place = row.querySelector(".wrong");
    place.id = isBlank ? "" : `wrong-row${at++}`;
    if (isBlank) place.replaceChildren();
  }
}

function add() {
  const rows = document.getElementById("rows");
  if (rows.childElementCount > MAX_ROWS) return;
  const row = rows.lastElementChild.cloneNode(true);
  for (const input of row.querySelectorAll("input")) input.value = "";
  row.querySelector("select").selectedIndex = 0;
  row.querySelector(".wrong").replaceChildren();
  delete row.dataset.left;
  offer(row);
  rows.append(row);
  showErrors();
  number();
  row.querySelector("input").focus();
}

// Suggest known values of a field.
function offer(row) {
  const list = document.getElementById(`values-${row.querySelector("[name=field]").value.trim()}`);
  if (list) row.querySelector("[name=value]").setAttribute("list", list.id);
  else row.querySelector("[name=value]").removeAttribute("list");
}

form.addEventListener("focusout", (event) => {
  const owner = event.target.closest(".condition") ?? event.target;
  if (!event.target.matches("input, select, textarea") || owner.contains(event.relatedTarget)) return;
  owner.dataset.left = "";
  const settings = event.target.closest("#settings");
  if (settings) settings.dataset.left = "";
  setTimeout(showErrors, SETTLE_MS); // after the click, so that the pressed button does not move
});

form.addEventListener("input", (event) => {
  const row = event.target.closest(".condition");
  if (row) {
    number();
    offer(row);
  }
  lookSoon(event.target.matches("select, [type=checkbox], [type=radio]") ? 0 : WAIT_MS);
});

form.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.hasAttribute("data-add")) {
    event.preventDefault();
    add();
  } else if (target.hasAttribute("data-remove")) {
    const row = target.closest(".condition");
    const next = row.nextElementSibling ?? row.previousElementSibling;
    if (next) {
      row.remove();
      next.querySelector("input").focus();
    } else {
      for (const input of row.querySelectorAll("input")) input.value = "";
    }
    number();
    lookSoon(0);
  } else if (target.value === "preview") {
    event.preventDefault();
    form.dataset.sent = "";
    lookSoon(0);
  } else if (target.dataset.line) {
    const box = document.getElementById("text");
    const lines = box.value.split("\n");
    const from = lines.slice(0, target.dataset.line - 1).join("\n").length + (target.dataset.line > 1 ? 1 : 0);
    box.focus();
    box.setSelectionRange(from, from + (lines[target.dataset.line - 1] ?? "").length);
  }
});

showErrors();
if ("look" in form.dataset) look();
