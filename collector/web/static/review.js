// Keyboard control of reviews: data-key presses a button, data-focus focuses a field.
// One vote per page: keys pressed while the next entry loads are ignored.

import { bind } from "./keys.js";

let sent = false;
document.addEventListener("submit", (event) => {
  if (sent) event.preventDefault();
  else if (!event.defaultPrevented) sent = true;
});
addEventListener("pageshow", () => { sent = false; });

for (const each of document.querySelectorAll("[data-key], [data-focus]")) {
  const name = each.dataset.key ? each.textContent.replace(each.querySelector("kbd")?.textContent ?? "", "") : each.name;
  bind(each.dataset.key ?? each.dataset.focus, name.trim(), each.dataset.key ? `[data-key="${CSS.escape(each.dataset.key)}"]` : `[data-focus="${CSS.escape(each.dataset.focus)}"]`);
}
