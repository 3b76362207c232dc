// The tree of a trace: only visible rows are drawn. Selecting a span replaces only the pane beside the tree, so that the
// scroll position, focus and filters stay. Without scripts, the rows are links, some hundred to a page.

import { bind } from "./keys.js";
import { exchange, isTyped, load, loadPage, say } from "./parts.js";

const [ID, DEPTH, IS_PARENT, NAME, TYPE, MODEL, TOKENS, COST, START, LENGTH, DURATION, ERROR, PASSED, FAILED, BROKEN, NOTE] =
  Array(16).keys();
const MARGIN_ROWS = 12;
const PAUSE_MS = 250; // between the last key and a request for the spans with a text
const WIDE = 1000;
const LEAST_BAR = 4;
const INDENT_REM = { row: 0.6, level: 0.9, most: 9, narrow: 5 }; // deep trees have smaller steps, so names keep their room
const narrow = matchMedia("(max-width: 40rem)");

const box = document.getElementById("tree");
const pane = document.getElementById("span");

function durationText(ms) {
  const short = (value) => (value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))));
  if (ms < 1000) return `${short(ms)} ms`;
  if (ms < 60000) return `${short(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(seconds % 60)} s`;
}

function hrefOf(id) {
  const address = new URL(location.href);
  address.hash = "";
  for (const name of ["at", "edge"]) address.searchParams.delete(name);
  address.searchParams.set("span", id);
  return address;
}

// ------------------------------------------------------------------ The pane beside the tree.

let asking = null;

async function show(address, { id, focusOn } = {}) {
  asking?.abort();
  const { signal } = (asking = new AbortController());
  const part = new URL(address);
  part.searchParams.set("part", "span");
  pane.setAttribute("aria-busy", "true");
  const page = await loadPage(part, { signal }).catch(() => null);
  if (signal.aborted) return;
  pane.removeAttribute("aria-busy");
  if (!page) {
    if (isTyped(pane)) say("This span cannot be shown. Sign in again in another window, if the session has ended.");
    else location.assign(address); // the server has an answer: that the trace is gone, or a form to sign in
    return;
  }
  history.replaceState(null, "", address);
  exchange(pane, page.getElementById("part").childNodes);
  if (id) markShown(id);
  if (focusOn) pane.querySelector(focusOn)?.focus({ preventScroll: true });
  const isBelow = pane.getBoundingClientRect().top >= box.getBoundingClientRect().bottom;
  if (isBelow) pane.scrollIntoView({ block: "start" });
  else if (pane.getBoundingClientRect().top < 0) window.scrollTo({ top: pane.offsetTop - 12 });
}

// Store a vote without leaving the page, so that the place in the tree and in the list stays.
async function vote(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => null);
  if (!answer) return say("Not stored: the server does not respond. Your input is still in the form.");
  if (answer.type !== "opaqueredirect") { // refused: the page says why
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name: button.name, value: button.value }));
    form.dataset.sent = "";
    return form.submit();
  }
  say(`Stored: ${button.value.toLowerCase()}, ${form.elements.about.selectedOptions[0].text}`);
  form.reset();
  return show(new URL(location.href));
}

// ------------------------------------------------------------------ The rows.

class Tree {
  constructor(outline) {
    this.spans = outline.spans;
    this.lengthMs = outline.lengthMs;
    this.places = new Map(this.spans.map((span, number) => [span[ID], number]));
    this.view = [0, outline.lengthMs];
    this.folded = new Set();
    this.hits = null;
    this.drawn = new Map();
    this.body = box.querySelector("tbody");
    this.table = box.querySelector("table");
    this.template = document.getElementById("tree-row");
    this.above = this.gap();
    this.below = this.gap();
    this.body.replaceChildren(this.above, this.below);
    this.cursor = -1;
    const deepest = this.spans.reduce((most, span) => Math.max(most, span[DEPTH]), 1);
    this.indentRem = Math.min(INDENT_REM.level, (narrow.matches ? INDENT_REM.narrow : INDENT_REM.most) / deepest);
    this.high = 28;
    this.map = new Minimap(this);
    this.arrange();
    this.high = this.body.rows[1]?.getBoundingClientRect().height || this.high;
    this.draw();
    drawAxis(box.querySelector(".time-axis"), this.view); // for the current width
  }

  gap() {
    const row = document.createElement("tr");
    row.setAttribute("aria-hidden", "true");
    row.className = "gap";
    row.append(document.createElement("td"));
    return row;
  }

  // Spans with a row: none below a collapsed one; during a search, only matches and their ancestors.
  arrange() {
    this.shown = [];
    let folded = Infinity;
    this.spans.forEach((span, number) => {
      if (this.hits) {
        if (this.hits.has(number)) this.shown.push(number);
        return;
      }
      if (span[DEPTH] > folded) return;
      folded = this.folded.has(number) ? span[DEPTH] : Infinity;
      this.shown.push(number);
    });
    this.table.setAttribute("aria-rowcount", this.shown.length + 1);
    this.draw();
  }

  draw() {
    const first = Math.max(Math.floor(box.scrollTop / this.high) - MARGIN_ROWS, 0);
    const last = Math.min(Math.ceil((box.scrollTop + box.clientHeight) / this.high) + MARGIN_ROWS, this.shown.length);
    const needed = new Set(this.shown.slice(first, last));
    for (const [number, row] of this.drawn) {
      if (needed.has(number)) continue;
      if (row.contains(document.activeElement)) box.focus({ preventScroll: true });
      row.remove();
      this.drawn.delete(number);
    }
    let next = this.above.nextSibling;
    for (let place = first; place < last; place++) {
      const number = this.shown[place];
      let row = this.drawn.get(number);
      if (!row) {
        row = this.rowOf(number);
        this.drawn.set(number, row);
      }
      row.setAttribute("aria-rowindex", place + 2);
      if (row === next) next = row.nextSibling;
      else this.body.insertBefore(row, next);
    }
    this.above.firstChild.style.height = `${first * this.high}px`;
    this.below.firstChild.style.height = `${Math.max(this.shown.length - last, 0) * this.high}px`;
    this.above.hidden = first === 0;
    this.below.hidden = last >= this.shown.length;
    this.map.draw();
  }

  rowOf(number) {
    const span = this.spans[number];
    const row = this.template.content.firstElementChild.cloneNode(true);
    const part = (name) => row.querySelector(`[data-of="${name}"]`);
    const fill = (name, text) => {
      if (text) part(name).textContent = text;
      else part(name).remove();
    };
    row.id = `s${number}`;
    row.dataset.row = "";
    row.classList.add(span[TYPE]);
    row.cells[0].style.paddingLeft = `${INDENT_REM.row + span[DEPTH] * this.indentRem}rem`;
    const link = row.querySelector("[data-open]");
    link.href = hrefOf(span[ID]);
    part("type").title = span[TYPE];
    part("kind").textContent = `${span[TYPE]}, `;
    part("name").textContent = span[NAME];
    fill("model", span[MODEL]);
    fill("error", span[ERROR] ? "error" : "");
    fill("failed", span[FAILED] ? `${span[FAILED]} failed` : "");
    fill("passed", span[PASSED] && !span[FAILED] ? "passed" : "");
    fill("broken", span[BROKEN] ? "no verdict" : "");
    fill("note", span[NOTE]);
    part("tokens").textContent = span[TOKENS];
    part("cost").textContent = span[COST];
    part("duration").textContent = span[DURATION];
    const fold = part("fold");
    if (span[IS_PARENT]) {
      const isFolded = this.folded.has(number) && !this.hits;
      fold.setAttribute("aria-expanded", String(!isFolded));
      fold.setAttribute("aria-label", `Children of ${span[NAME]}`);
      fold.addEventListener("click", () => this.fold(number, !this.folded.has(number)));
    } else fold.replaceWith(Object.assign(document.createElement("span"), { className: "fold" }));
    this.mark(row, number);
    this.bar(row, span);
    return row;
  }

  mark(row, number) {
    const isHere = this.spans[number][ID] === this.chosen;
    row.classList.toggle("here", isHere);
    row.classList.toggle("chosen", number === this.cursor);
    const link = row.querySelector("[data-open]");
    if (isHere) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }

  bar(row, span) {
    const bar = row.querySelector("rect");
    if (span[START] === null) {
      bar.setAttribute("width", 0);
      return;
    }
    const [from, to] = this.view;
    const scale = WIDE / (to - from);
    const left = (span[START] - from) * scale;
    const wide = Math.max((span[LENGTH] ?? 0) * scale, LEAST_BAR);
    bar.setAttribute("x", Math.min(left, WIDE - (to === this.lengthMs ? LEAST_BAR : -LEAST_BAR)));
    bar.setAttribute("width", wide);
    bar.classList.toggle("failed", span[ERROR]);
  }

  choose(id) {
    const number = this.places.get(id);
    if (number === undefined) return;
    this.cursor = number;
    this.unfoldAbove(number);
    for (const [each, row] of this.drawn) this.mark(row, each);
    this.reveal(this.shown.indexOf(number));
  }

  unfoldAbove(number) {
    let depth = this.spans[number][DEPTH];
    let isChanged = false;
    for (let above = number - 1; above >= 0 && depth > 0; above--) {
      if (this.spans[above][DEPTH] >= depth) continue;
      depth = this.spans[above][DEPTH];
      if (this.folded.delete(above)) isChanged = this.forget(above);
    }
    if (isChanged) this.arrange();
  }

  forget(number) {
    this.drawn.get(number)?.remove();
    this.drawn.delete(number);
    return true;
  }

  reveal(place) {
    if (place < 0) return;
    const head = this.table.tHead.offsetHeight;
    const top = place * this.high;
    if (top < box.scrollTop || top + this.high + head > box.scrollTop + box.clientHeight) {
      box.scrollTop = top - (box.clientHeight - head - this.high) / 2;
    }
    this.draw();
  }

  move(step) {
    const now = this.shown.indexOf(this.cursor);
    const place = Math.min(Math.max(now + step, 0), this.shown.length - 1);
    if (place < 0) return;
    this.cursor = this.shown[place];
    this.reveal(place);
    for (const [each, row] of this.drawn) this.mark(row, each);
    this.drawn.get(this.cursor)?.querySelector("[data-open]").focus({ preventScroll: true });
  }

  fold(number, isFolded) {
    if (!this.spans[number][IS_PARENT]) return;
    if (isFolded) this.folded.add(number);
    else this.folded.delete(number);
    const hadFocus = this.drawn.get(number)?.contains(document.activeElement);
    this.forget(number);
    this.arrange();
    if (hadFocus) this.drawn.get(number)?.querySelector("button.fold, [data-open]").focus({ preventScroll: true });
  }

  foldAll(isFolded) {
    this.folded = new Set(isFolded ? [...this.spans.keys()].filter((n) => this.spans[n][IS_PARENT] && this.spans[n][DEPTH] > 0) : []);
    this.drawn.forEach((row) => row.remove());
    this.drawn.clear();
    this.arrange();
    this.reveal(this.shown.indexOf(this.cursor));
  }

  // The server finds the spans whose ids are in `withText`: their texts are not here.
  find(text, withText = new Set()) {
    const query = text.trim().toLowerCase();
    this.matching = [];
    this.hits = query ? new Set() : null;
    const above = [];
    this.spans.forEach((span, number) => {
      above[span[DEPTH]] = number;
      if (!query || (!withText.has(span[ID]) && ![span[NAME], span[MODEL], span[TYPE], span[ID]].some((each) => each.toLowerCase().includes(query)))) return;
      this.matching.push(number);
      this.hits.add(number);
      for (let depth = span[DEPTH] - 1; depth >= 0 && !this.hits.has(above[depth]); depth--) this.hits.add(above[depth]);
    });
    this.drawn.forEach((row) => row.remove());
    this.drawn.clear();
    box.scrollTop = 0;
    this.arrange();
    return query ? this.matching.length : null;
  }

  zoom(from, to) {
    const wide = Math.min(Math.max(to - from, this.lengthMs / 100000), this.lengthMs);
    const begin = Math.min(Math.max(from, 0), this.lengthMs - wide);
    this.view = [begin, begin + wide];
    for (const [number, row] of this.drawn) this.bar(row, this.spans[number]);
    drawAxis(box.querySelector(".time-axis"), this.view);
    this.map.draw();
  }

  zoomBy(factor) {
    const [from, to] = this.view;
    const middle = (from + to) / 2;
    const half = ((to - from) * factor) / 2;
    this.zoom(middle - half, middle + half);
  }

  zoomTo(id) {
    const span = this.spans[this.places.get(id)];
    if (!span || span[START] === null) return;
    const length = Math.max(span[LENGTH] ?? 0, this.lengthMs / 10000);
    this.zoom(span[START] - length * 0.1, span[START] + length * 1.1);
  }
}

const LABEL_PX = 48; // distance between axis labels, so that they do not touch

function drawAxis(axis, [from, to]) {
  const width = axis.getBoundingClientRect().width;
  let labelled = -Infinity;
  const power = 10 ** Math.floor(Math.log10(Math.max((to - from) / 4, 1e-6)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= (to - from) / 4);
  const drawn = [];
  const make = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const share = (at - from) / (to - from);
    const x = `${100 * share}%`;
    drawn.push(make("line", { x1: x, x2: x, y1: 13, y2: 18, class: "axis" }));
    if ((share - labelled) * width < LABEL_PX) continue;
    labelled = share;
    const label = make("text", { x, y: 10, "text-anchor": share > 0.9 ? "end" : share < 0.05 ? "start" : "middle" });
    label.textContent = durationText(at);
    drawn.push(label);
  }
  axis.replaceChildren(...drawn);
}

// ------------------------------------------------------------------ The minimap: all spans as lines above the tree.

class Minimap {
  constructor(tree) {
    this.tree = tree;
    this.canvas = document.getElementById("minimap");
    this.drag = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      this.drag = [event.offsetX, event.offsetX];
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      this.drag[1] = event.offsetX;
      this.draw();
    });
    this.canvas.addEventListener("pointerup", (event) => this.drop(event));
    this.canvas.addEventListener("pointercancel", () => (this.drag = null));
    this.canvas.addEventListener("dblclick", () => tree.zoom(0, tree.lengthMs));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    document.addEventListener("themed", () => this.draw());
  }

  drop(event) {
    if (!this.drag) return;
    const [from, to] = this.drag.sort((one, other) => one - other);
    const ms = (x) => (x / this.canvas.clientWidth) * this.tree.lengthMs;
    this.drag = null;
    if (to - from > 4) this.tree.zoom(ms(from), ms(to));
    else {
      const rows = box.scrollHeight - box.clientHeight;
      box.scrollTop = (event.offsetY / this.canvas.clientHeight) * rows;
      this.draw();
    }
  }

  // A color of the theme for the canvas.
  colour(name) {
    this.canvas.style.color = `var(--${name})`;
    return getComputedStyle(this.canvas).color;
  }

  // The lines of the spans, drawn once per layout, size and theme.
  lines(wide, high, fine) {
    const { tree } = this;
    const key = `${wide} ${high} ${fine} ${this.colour("ground")}`;
    if (this.key === key && this.of === tree.shown) return this.base;
    [this.key, this.of] = [key, tree.shown];
    this.base = Object.assign(document.createElement("canvas"), { width: wide * fine, height: high * fine });
    const pen = this.base.getContext("2d");
    pen.scale(fine, fine);
    const colours = {};
    const colour = (name) => (colours[name] ??= this.colour(name));
    const count = Math.max(tree.shown.length, 1);
    const line = Math.min(Math.max(high / count, 1), 6);
    const draw = (number, place) => {
      const span = tree.spans[number];
      if (span[START] === null) return;
      pen.fillStyle = colour(span[ERROR] ? "bad" : span[TYPE]);
      const length = Math.max(((span[LENGTH] ?? 0) / tree.lengthMs) * wide, span[ERROR] ? 3 : 1);
      pen.fillRect((span[START] / tree.lengthMs) * wide, (place / count) * high, length, span[ERROR] ? Math.max(line, 2) : line);
    };
    tree.shown.forEach((number, place) => tree.spans[number][ERROR] || draw(number, place));
    tree.shown.forEach((number, place) => tree.spans[number][ERROR] && draw(number, place)); // on top
    return this.base;
  }

  draw() {
    const { canvas, tree } = this;
    const [wide, high, fine] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
    if (!wide || !tree.shown) return;
    canvas.width = wide * fine;
    canvas.height = high * fine;
    const pen = canvas.getContext("2d");
    pen.drawImage(this.lines(wide, high, fine), 0, 0);
    pen.scale(fine, fine);
    pen.fillStyle = this.colour("accent");
    pen.globalAlpha = 0.16;
    const rows = Math.max(tree.shown.length * tree.high, box.clientHeight);
    pen.fillRect(0, (box.scrollTop / rows) * high, wide, Math.max((box.clientHeight / rows) * high, 3));
    const [from, to] = this.drag ? this.drag.map((x) => x / wide) : tree.view.map((ms) => ms / tree.lengthMs);
    pen.globalAlpha = 0.3;
    pen.fillStyle = this.colour("soft");
    pen.fillRect(0, 0, Math.min(from, to) * wide, high);
    pen.fillRect(Math.max(from, to) * wide, 0, wide, high);
  }
}

// ------------------------------------------------------------------ The divider between the tree and the pane.

class Divider {
  static KEY = "trace divider";

  constructor(bar, panes) {
    Object.assign(this, { bar, panes });
    try {
      const kept = Number(localStorage.getItem(Divider.KEY));
      if (kept) this.move(kept);
    } catch {
      // without storage, the width is not remembered
    }
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      event.preventDefault();
      bar.focus();
    });
    bar.addEventListener("pointermove", (event) => bar.hasPointerCapture(event.pointerId) && this.move(this.shareAt(event.clientX)));
    bar.addEventListener("pointerup", () => this.keep());
    bar.addEventListener("dblclick", () => this.reset());
    bar.addEventListener("keydown", (event) => {
      const now = this.share ?? this.shareAt(bar.getBoundingClientRect().left);
      const share = { ArrowLeft: now - 2, ArrowRight: now + 2, Home: 20, End: 80 }[event.key];
      if (event.key === "Enter") this.reset();
      else if (share !== undefined) {
        this.move(share);
        this.keep();
      } else return;
      event.preventDefault();
    });
  }

  shareAt(x) {
    const { left, width } = this.panes.getBoundingClientRect();
    return ((x - left) / width) * 100;
  }

  // In percent of the width that both have.
  move(share) {
    this.share = Math.min(Math.max(share, 20), 80);
    this.panes.style.setProperty("--tree", `${this.share}fr`);
    this.panes.style.setProperty("--pane", `${100 - this.share}fr`);
    this.bar.setAttribute("aria-valuenow", Math.round(this.share));
  }

  keep() {
    try {
      if (this.share) localStorage.setItem(Divider.KEY, this.share.toFixed(1));
    } catch {
      // see above
    }
  }

  reset() {
    this.share = undefined;
    this.panes.style.removeProperty("--tree");
    this.panes.style.removeProperty("--pane");
    this.bar.setAttribute("aria-valuenow", 58);
    try {
      localStorage.removeItem(Divider.KEY);
    } catch {
      // see above
    }
  }
}

// ------------------------------------------------------------------ User input.

let tree = null;

function go(id, focusOn) {
  tree?.choose(id);
  return show(hrefOf(id), { id, focusOn });
}

// Mark the row of the span that the pane shows: while the server is away, that is not the row of the cursor.
function markShown(id) {
  if (tree) {
    tree.chosen = id;
    for (const [each, row] of tree.drawn) tree.mark(row, each);
    return;
  }
  for (const row of box.querySelectorAll("[data-row]")) {
    row.classList.toggle("here", new URL(row.querySelector("[data-open]").href).searchParams.get("span") === id);
  }
}

const isPlain = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

function listen() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("#tree [data-open], [data-walk]");
    if (!link || !isPlain(event)) return;
    const walk = link.dataset.walk;
    const inside = walk && !pane.contains(link) ? pane.querySelector(`[data-walk="${walk}"]`) : null;
    const id = new URL((inside ?? link).href).searchParams.get("span");
    if (!id) return;
    event.preventDefault();
    go(id, walk ? `[data-walk="${walk}"]` : null);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !tree || !box.contains(event.target)) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const fold = { ArrowLeft: true, ArrowRight: false }[event.key];
    if (step) tree.move(step);
    if (fold !== undefined && tree.cursor >= 0) tree.fold(tree.cursor, fold);
    if (step || fold !== undefined) event.preventDefault();
  });
}

function bindKeys() {
  bind("e", "next error of the trace", "#span [data-walk=next-error]");
  bind("E", "previous error", "#span [data-walk=previous-error]");
  bind("n", "next span that a judge failed", "#span [data-walk=next-failing]");
  bind("N", "previous span that a judge failed", "#span [data-walk=previous-failing]");
  bind("←, →", "collapse, expand a span of the tree");
  bind("d", "add the trace to a dataset", ".actions [data-promote]");
  bind("D", "add the span to a dataset", "#span [data-promote]");
  for (const [at, verdict] of ["CORRECT", "INCORRECT", "UNSURE"].entries()) {
    bind(String(at + 1), `vote: ${verdict.toLowerCase()}`, `#votes [value=${verdict}]`);
  }
  pane.addEventListener("submit", (event) => {
    if (event.defaultPrevented || !event.target.closest("#votes")) return;
    event.preventDefault();
    vote(event.target, event.submitter);
  });
}

function equip() {
  let waiting = 0;
  box.addEventListener("scroll", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => tree.draw());
  });
  new ResizeObserver(() => tree.draw()).observe(box);
  box.querySelector("table").addEventListener("step", (event) => {
    event.preventDefault();
    tree.move(event.detail);
  });
  const tools = document.getElementById("tree-tools");
  const acts = {
    in: () => tree.zoomBy(0.5),
    out: () => tree.zoomBy(2),
    span: () => tree.zoomTo(tree.chosen),
    all: () => tree.zoom(0, tree.lengthMs),
    fold: () => tree.foldAll(true),
    unfold: () => tree.foldAll(false),
  };
  tools.addEventListener("click", (event) => acts[event.target.closest("[data-act]")?.dataset.act]?.());
  const search = tools.querySelector("[data-search]");
  const hits = document.getElementById("hits");
  let asked = 0;
  const find = () => {
    tellHits(tree.find(search.value));
    const number = ++asked;
    if (search.value.trim()) setTimeout(() => number === asked && findTexts(number), PAUSE_MS);
  };
  const findTexts = async (number) => {
    const address = new URL(box.dataset.tree, location.href);
    address.searchParams.set("part", "find");
    address.searchParams.set("find", search.value);
    const answer = await load(address);
    const ids = answer.isOk ? JSON.parse(answer.text) : [];
    if (number === asked && ids.length) tellHits(tree.find(search.value, new Set(ids)));
  };
  const tellHits = (count) => {
    hits.textContent = count === null ? "" : count === 1 ? "1 span" : `${count.toLocaleString("en")} spans`;
    const address = new URL(location.href);
    if (search.value) address.searchParams.set("find", search.value);
    else address.searchParams.delete("find");
    search.defaultValue = search.value; // so that resetting the form keeps the shown search
    history.replaceState(null, "", address);
  };
  search.addEventListener("input", find);
  tools.addEventListener("submit", (event) => {
    event.preventDefault();
    const next = tree.matching?.find((number) => number > tree.cursor) ?? tree.matching?.[0];
    if (next !== undefined) go(tree.spans[next][ID]);
  });
  if (search.value) find();
}

async function begin() {
  new Divider(document.getElementById("divider"), document.getElementById("panes"));
  listen();
  bindKeys();
  const answer = await load(box.dataset.tree);
  if (!answer.isOk) return;
  const held = JSON.parse(answer.text);
  if (!held.spans.length) return;
  tree = new Tree(held);
  document.documentElement.classList.add("treed");
  document.querySelectorAll("[data-window]").forEach((each) => each.remove());
  equip();
  tree.chosen = box.dataset.chosen;
  tree.choose(tree.chosen);
  box.dataset.drawn = "1";
}

if (box && pane) begin();
