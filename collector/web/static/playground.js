// The playground: update the maximum cost while editing. Without scripts, a button does it.

import { parsed, sender } from "./parts.js";

const form = document.querySelector("form[data-playground]");
const WAIT_MS = 500;
let waiting = 0;

const look = sender(form, "price", ({ isOk, text }) => {
  const fresh = isOk && parsed(text).getElementById("price");
  if (fresh) document.getElementById("price")?.replaceWith(fresh);
});

form?.addEventListener("input", () => {
  document.getElementById("price")?.classList.add("stale");
  clearTimeout(waiting);
  waiting = setTimeout(look, WAIT_MS);
});

form?.addEventListener("submit", (event) => {
  if (event.submitter?.value !== "send") return;
  document.getElementById("asking").textContent = "Asking…";
  for (const button of form.querySelectorAll("button")) setTimeout(() => (button.disabled = true));
});

// After "back", the form keeps its values and can be sent again.
addEventListener("pageshow", () => {
  for (const button of form?.querySelectorAll("button") ?? []) button.disabled = false;
  const asking = document.getElementById("asking");
  if (asking) asking.textContent = "";
});

document.getElementById("answers")?.scrollIntoView({ block: "start" });
