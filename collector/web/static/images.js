// A picture that a message carries stands below its link once somebody clicks it. Without this, the link leads to it.

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
    figure.textContent = "It cannot be shown: it is too large, or no image.";
  });
  figure.append(image);
  line.after(figure);
  link.textContent = "Hide the image";
});
