// Reviewing by keyboard: a button with data-key is pressed by that key, a field with data-focus gets the focus by it.
// One answer for each page: what is typed while the next entry is on its way answers nothing.

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
