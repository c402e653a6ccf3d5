// Shows a PNG and says where it is touched: points as shares of width and height,
// the second from below. A stroke is told in parts while it goes on.
const PAUSE = 80; // milliseconds between two messages

function render({ model, el }) {
  const image = document.createElement("img");
  image.style.maxWidth = "100%";
  image.style.cursor = "crosshair";
  image.draggable = false;
  let address = "";
  let stroke = [];
  let last = 0;

  const show = () => {
    URL.revokeObjectURL(address);
    address = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
    image.src = address;
    image.alt = model.get("alt");
  };
  const place = (event) => {
    const box = image.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    return [x, 1 - (event.clientY - box.top) / box.height];
  };
  const tell = (kind, points) => {
    last = performance.now();
    model.send({ kind, points });
  };

  image.onpointerdown = (event) => {
    image.setPointerCapture(event.pointerId);
    tell("touch", [place(event)]);
  };
  image.onpointermove = (event) => {
    const pressed = event.buttons & 1;
    if (pressed) stroke.push(place(event));
    if (performance.now() - last < PAUSE) return;
    if (!pressed) tell("hover", [place(event)]);
    else tell("touch", stroke.splice(0));
  };
  image.onpointerup = () => {
    if (stroke.length) tell("touch", stroke.splice(0));
  };
  model.on("change:png", show);
  show();
  el.appendChild(image);
  return () => URL.revokeObjectURL(address);
}

export default { render };
