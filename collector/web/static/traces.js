// The list of traces; its charts and facets load after it.

import { bind } from "./keys.js";
import { exchange, loadPage, renew } from "./parts.js";

const wide = matchMedia("(min-width: 90rem)");

// Volume, latency and facets take longer than the list, so the list does not wait for them.
async function showBeside(address, names) {
  const page = await loadPage(address);
  for (const name of names) {
    const fresh = page?.getElementById(name); // the links in its place lead to the same
    const shown = document.getElementById(name);
    if (fresh && shown) exchange(shown, fresh.childNodes);
  }
}

// Facets are open beside the list if there is room; otherwise they load on opening.
async function showAll(address) {
  const facets = document.getElementById("facets");
  if (wide.matches) {
    await showBeside(address, ["volume", "values"]);
    if (!facets || !document.querySelector("#values li")) return;
    facets.open = true;
  } else if (facets) {
    const whole = new URL(address, location.href);
    const volume = new URL(whole);
    volume.searchParams.set("values", "none");
    facets.addEventListener("toggle", () => showBeside(whole, ["values"]), { once: true });
    showBeside(volume, ["volume"]);
  }
  if (!facets) return;
  facets.hidden = false;
  facets.parentElement.classList.add("has-values");
}

const beside = document.querySelector("[data-beside]");
if (beside) showAll(beside.dataset.beside);

// Selected rows: their count, selecting a whole page, and keeping the selection when the list refreshes.
const list = document.getElementById("traces");
const tools = document.querySelector(".chosen-tools");
const boxes = () => [...document.querySelectorAll('input[name="trace"][form="chosen"]')];
const picked = new Set();

function tellPicked() {
  const all = boxes();
  for (const box of all) box.checked ? picked.add(box.value) : picked.delete(box.value);
  const count = all.filter((box) => box.checked).length;
  tools.classList.toggle("some", count > 0);
  tools.querySelector("[data-picked]").textContent = count === 1 ? "1 trace:" : `${count} traces:`;
  const whole = document.querySelector("[data-pick-all]");
  if (!whole) return;
  whole.checked = count > 0 && count === all.length;
  whole.indeterminate = count > 0 && count < all.length;
}

if (tools && list) {
  list.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) for (const box of boxes()) box.checked = event.target.checked;
    tellPicked();
  });
  list.addEventListener("shown", () => {
    const kept = new Set(picked);
    for (const box of boxes()) box.checked = kept.has(box.value);
    tellPicked();
  });
  tellPicked(); // after "back", the browser restores the checked boxes
}

// The preview: a summary of the current row beside the list; the link of the row still opens the trace.
const panel = document.getElementById("panel");
const content = document.getElementById("panel-content");
let asking = null;

function closePanel() {
  asking?.abort();
  panel.hidden = true;
  document.body.classList.remove("with-panel");
}

async function preview(row) {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const page = await loadPage(row.dataset.preview, { signal }).catch(() => null);
  if (signal.aborted) return;
  const notice = Object.assign(document.createElement("p"), { textContent: "This trace no longer exists." });
  exchange(content, page?.getElementById("preview")?.childNodes ?? [notice]);
  content.scrollTop = 0;
  panel.hidden = false;
  document.body.classList.add("with-panel");
}

function remember(row) { // so that "back" restores the list
  try {
    sessionStorage.setItem(`list ${location.pathname} row`, row.id);
  } catch {
    // without storage, "back" does not restore the row
  }
}

function choose(row) {
  document.querySelector("[data-row].chosen")?.classList.remove("chosen");
  row.classList.add("chosen");
  row.querySelector("[data-open]")?.focus({ preventScroll: true });
}

if (panel && list) {
  list.addEventListener("click", (event) => {
    const row = event.target.closest("[data-preview]");
    if (!row || event.target.closest("a, input, button, label, summary") || !getSelection().isCollapsed) return;
    choose(row);
    preview(row);
  });
  panel.addEventListener("click", (event) => {
    if (event.target.closest("[data-panel-close]")) closePanel();
    const row = document.querySelector("[data-preview].chosen");
    if (row && event.target.closest("a")) remember(row);
  });
  list.addEventListener("chosen", (event) => panel.hidden || preview(event.target));
  bind("p", "preview of the trace beside the list", () => {
    const row = document.querySelector("[data-preview].chosen");
    if (!panel.hidden) closePanel();
    else if (row) preview(row);
  });
  bind("Escape", "close the preview", "#panel:not([hidden]) [data-panel-close]");
}

// New traces are offered instead of shown if live is off, or if the user would lose the place: rows are selected, a
// preview is open, or the top of the list is out of sight.
const offer = document.getElementById("new-traces");
const idsOf = (place) => [...place.querySelectorAll("[data-row]")].map((row) => row.id);

function offerNew(fresh) {
  const shown = new Set(idsOf(list));
  const ids = idsOf(fresh);
  const count = ids.filter((id) => !shown.has(id)).length;
  const isBusy = boxes().some((box) => box.checked) || !panel.hidden || list.getBoundingClientRect().top < 0;
  const isOff = "held" in list.dataset;
  offer.replaceChildren();
  if (count && (isOff || isBusy)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: `${count}${count === ids.length && shown.size ? "+" : ""} new ${count === 1 ? "trace" : "traces"}` });
    button.addEventListener("click", () => showNew(fresh));
    offer.append(button);
  }
  return isOff || (count > 0 && isBusy);
}

function showNew(fresh) {
  offer.replaceChildren();
  renew(list, fresh);
  const row = list.querySelector("[data-row]");
  if (row) choose(row);
  if (list.getBoundingClientRect().top < 0) list.scrollIntoView();
}

list?.addEventListener("fresh", (event) => offerNew(event.detail) && event.preventDefault());
