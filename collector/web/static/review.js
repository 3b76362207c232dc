// Keyboard control of reviews: data-key presses a button, data-focus focuses a field.
// One vote per page: keys pressed while the next entry loads are ignored.

let sent = false;
document.addEventListener("submit", (event) => {
  if (sent) event.preventDefault();
  else if (!event.defaultPrevented) sent = true;
});
addEventListener("pageshow", () => { sent = false; });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || sent) return;
  if (document.getElementById("help").open || event.target.closest("input, textarea, select")) return;
  if (event.key === "Enter" && event.target.closest("button, a, summary")) return;
  const key = CSS.escape(event.key);
  const field = document.querySelector(`[data-focus="${key}"]`);
  const button = document.querySelector(`[data-key="${key}"]`);
  if (!field && !button) return;
  event.preventDefault();
  field ? field.focus() : button.click();
});
