// The playground: update the maximum cost while editing. Without scripts, a button does it.

const form = document.querySelector("form[data-playground]");
const WAIT_MS = 500;
let waiting = 0;
let isLooking = false;
let again = false;

async function ask() {
  const fields = new URLSearchParams(new FormData(form));
  fields.set("do", "price");
  const answer = await fetch(form.action, { method: "POST", body: fields }).catch(() => null);
  if (!answer || !answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("price");
  const now = document.getElementById("price");
  if (fresh && now) now.replaceWith(document.adoptNode(fresh));
}

// One request at a time; later input is sent after it.
async function look() {
  if (isLooking) {
    again = true;
    return;
  }
  isLooking = true;
  do {
    again = false;
    await ask();
  } while (again);
  isLooking = false;
}

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
