// Show an image of a message below its link on click. Without scripts, the link opens it.

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-image]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const line = link.parentElement;
  const shown = line.nextElementSibling?.matches("figure.shown-image") ? line.nextElementSibling : null;
  if (shown) {
    shown.remove();
    link.textContent = "Show the image";
    return;
  }
  const figure = Object.assign(document.createElement("figure"), { className: "shown-image" });
  const image = Object.assign(document.createElement("img"), { src: link.href, alt: "Image of this message", decoding: "async" });
  image.addEventListener("error", () => {
    figure.textContent = "It cannot be shown: too large, or not an image.";
  });
  figure.append(image);
  line.after(figure);
  link.textContent = "Hide the image";
});
