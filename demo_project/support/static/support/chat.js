"use strict";
// Shows an answer as it is written. Each chunk goes to the end of the part that it belongs to, as text:
// nothing that anybody wrote becomes markup. EventSource reconnects by itself, and goes on where it was.
const live = document.getElementById("live");
const state = document.getElementById("state");
const source = new EventSource(live.dataset.stream);
const parts = new Map();

source.addEventListener("chunk", (event) => {
  const { part, who, name, text } = JSON.parse(event.data).chunk;
  if (!parts.has(part)) {
    const said = document.getElementById("says").content.firstElementChild.cloneNode(true);
    said.classList.add(who);
    said.querySelector("b").textContent = name;
    live.append(said);
    parts.set(part, said.querySelector("span"));
    state.textContent = "";
  }
  parts.get(part).append(text);
});
source.addEventListener("restart", () => {
  live.replaceChildren();
  parts.clear();
});
source.addEventListener("waiting", () => {
  live.ariaBusy = "false";
  state.textContent = "A colleague has been asked. You may leave this page and come back.";
});
source.addEventListener("resumed", () => {
  live.ariaBusy = "true";
  state.textContent = "";
});
source.addEventListener("end", (event) => {
  source.close();
  live.ariaBusy = "false";
  state.textContent = JSON.parse(event.data).status === "completed" ? "" : "This could not be answered.";
  document.getElementById("ask").hidden = false;
});
source.addEventListener("error", () => {
  if (source.readyState === EventSource.CLOSED) state.textContent = "Reload this page to see the answer.";
});
