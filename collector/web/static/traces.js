// The list of traces; its charts and facets load after it.

const wide = matchMedia("(min-width: 90rem)");

// Volume, latency and facets take longer than the list, so the list does not wait for them.
async function showBeside(address, names) {
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) return; // the links in their place lead to the same
  const held = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const name of names) {
    const fresh = held.getElementById(name);
    const shown = document.getElementById(name);
    if (!fresh || !shown) continue;
    shown.replaceChildren(...fresh.childNodes);
    shown.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
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
  const answer = await fetch(row.dataset.preview, { signal: asking.signal }).catch(() => null);
  if (!answer) return;
  const held = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = held.getElementById("preview");
  const notice = Object.assign(document.createElement("p"), { textContent: "This trace no longer exists." });
  content.replaceChildren(...(fresh ? fresh.childNodes : [notice]));
  content.scrollTop = 0;
  panel.hidden = false;
  document.body.classList.add("with-panel");
  content.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
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
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const row = document.querySelector("[data-preview].chosen");
    if (event.key === "Escape" && !panel.hidden) closePanel();
    else if (event.key === "p" && !panel.hidden) closePanel();
    else if (event.key === "p" && row) preview(row);
    else if ((event.key === "j" || event.key === "k") && row && !panel.hidden) preview(row); // the list has moved already
  });
}
