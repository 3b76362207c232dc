// Reading aids for long texts: a copy button, and JSON as a tree whose paths and values can be copied.
// Without scripts, texts are shown as they are.

import { copy } from "./app.js";

const CHILDREN_AT_ONCE = 200;

async function whole(block) {
  const next = block.nextElementSibling?.matches(".json-tree") ? block.nextElementSibling.nextElementSibling : block.nextElementSibling;
  const link = next?.matches(".cut") ? next.querySelector("a[href*='/text?']") : null;
  const answer = link ? await fetch(link.href).catch(() => null) : null;
  return answer?.ok ? answer.text() : (block.dataset.source ?? block.textContent);
}

function button(label, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", className: "plain copier", textContent: label });
  made.addEventListener("click", () => act(made));
  return made;
}

const step = (key) => (typeof key === "number" ? `[${key}]` : /^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);

function leaf(value) {
  const text = JSON.stringify(value);
  return Object.assign(document.createElement("code"), { className: `json-${value === null ? "null" : typeof value}`, textContent: text });
}

// One value of the tree; its children are created on opening.
function node(key, value, path, isOpen) {
  const row = document.createElement(value && typeof value === "object" ? "details" : "div");
  row.className = "json-node";
  const head = row.tagName === "DETAILS" ? document.createElement("summary") : row;
  const name = Object.assign(document.createElement("span"), { className: "json-key", textContent: key === null ? "" : `${key}: ` });
  head.append(name);
  const tools = document.createElement("span");
  tools.className = "json-tools";
  tools.append(button("path", (self) => copy(self, path || "$")), " ", button("value", (self) => copy(self, typeof value === "string" ? value : JSON.stringify(value, null, 2))));
  if (row === head) {
    head.append(leaf(value), " ", tools);
    return row;
  }
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  const size = Object.assign(document.createElement("small"), { textContent: Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}` });
  head.append(size, " ", tools);
  row.append(head);
  const fill = () => {
    if (row.dataset.filled) return;
    row.dataset.filled = "1";
    const more = (from) => {
      for (const [each, inside] of entries.slice(from, from + CHILDREN_AT_ONCE)) row.append(node(each, inside, path + step(each), false));
      const rest = entries.length - from - CHILDREN_AT_ONCE;
      if (rest > 0) row.append(button(`${rest} more`, (self) => { self.remove(); more(from + CHILDREN_AT_ONCE); }));
    };
    more(0);
  };
  row.addEventListener("toggle", () => row.open && fill());
  if (isOpen) {
    fill();
    row.open = true;
  }
  return row;
}

function asTree(block) {
  let value;
  try {
    value = JSON.parse(block.textContent);
  } catch {
    return null;
  }
  if (value === null || typeof value !== "object") return null;
  const tree = document.createElement("div");
  tree.className = "json-tree";
  tree.append(node(null, value, "", true));
  return tree;
}

// Buttons above a text: copy, and for JSON, show as a tree.
function equip(block) {
  block.dataset.equipped = "1";
  const tools = document.createElement("p");
  tools.className = "text-tools";
  tools.append(button("Copy", async (self) => copy(self, await whole(block))));
  if (/^\s*[[{]/.test(block.textContent)) {
    let tree = null;
    tools.append(
      " ",
      button("As a tree", (self) => {
        tree ??= asTree(block);
        if (!tree) {
          self.remove(); // truncated, or not JSON
          return;
        }
        const isTree = !tree.isConnected;
        if (isTree) block.after(tree);
        else tree.remove();
        block.hidden = isTree;
        self.textContent = isTree ? "As text" : "As a tree";
      }),
    );
  }
  block.before(tools);
}

const equipAll = (place) => place.querySelectorAll("pre.text:not([data-equipped])").forEach(equip);
equipAll(document);
document.addEventListener("shown", (event) => equipAll(event.target));
