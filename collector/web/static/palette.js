// The command palette: the links of the page "Go to", filtered by what is typed; a trace by its id; and the search.

import { loadPage } from "./parts.js";

const MOST = 50;
const source = document.querySelector("[data-palette]");
const dialog = Object.assign(document.createElement("dialog"), { className: "palette" });
dialog.setAttribute("aria-label", source.textContent.trim());
dialog.innerHTML = '<input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-label="Page, agent, project, view, trace id or text" placeholder="Page, agent, project, view, trace id or text" autocomplete="off" spellcheck="false"><div role="listbox" id="palette-list" aria-label="Results"></div>';
document.body.append(dialog);
const [field, list] = dialog.children;
let links = [];
let isWhole = false;
let at = 0;

const linksOf = (place, group) => [...place.querySelectorAll("a")].map((link) => ({ text: link.dataset.name, group, href: link.getAttribute("href") }));

function choose(number) {
  at = (number + list.children.length) % list.children.length;
  [...list.children].forEach((each, place) => each.setAttribute("aria-selected", String(place === at)));
  field.setAttribute("aria-activedescendant", list.children[at].id);
  list.children[at].scrollIntoView({ block: "nearest" });
}

function draw() {
  const typed = field.value.trim();
  const words = typed.toLowerCase().split(/\s+/);
  const found = links.filter(({ text, group }) => words.every((word) => `${text} ${group}`.toLowerCase().includes(word)));
  const begins = ({ text }) => text.toLowerCase().startsWith(words[0]);
  const sorted = [...found.filter(begins), ...found.filter((each) => !begins(each))].slice(0, MOST);
  const searched = { href: `${document.documentElement.dataset.root ?? ""}/traces?text=${encodeURIComponent(typed)}`, group: "Traces" };
  if (/^[0-9a-f]{32}$/i.test(typed)) sorted.unshift({ ...searched, text: `Go to the trace ${typed}` });
  else if (typed) sorted.push({ ...searched, text: `Search for “${typed}”` });
  list.replaceChildren(...sorted.map(({ text, group, href }, number) => {
    const option = Object.assign(document.createElement("a"), { id: `palette-${number}`, href, tabIndex: -1, textContent: text });
    option.setAttribute("role", "option");
    option.append(" ", Object.assign(document.createElement("small"), { textContent: group }));
    return option;
  }));
  choose(0);
}

field.addEventListener("input", draw);
field.addEventListener("keydown", (event) => {
  if (event.isComposing) return; // Enter and the arrows choose among the candidates of an input method
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) choose(at + step);
  else if (event.key === "Enter") list.children[at].click();
  else return;
  event.preventDefault();
});
dialog.addEventListener("click", (event) => (event.target === dialog || event.target.closest("a")) && dialog.close());

export async function open() {
  if (dialog.open) return;
  links = links.length ? links : linksOf(document.querySelector(".menu"), "Page");
  field.value = "";
  dialog.showModal();
  draw();
  if (isWhole) return;
  isWhole = true;
  const page = await loadPage(source.href);
  if (!page) return; // the pages of the menu remain
  links = [...page.querySelectorAll("[data-places]")].flatMap((each) => linksOf(each, each.dataset.places));
  const chosen = list.children[at].href;
  draw();
  choose(Math.max([...list.children].findIndex((each) => each.href === chosen), 0));
}
