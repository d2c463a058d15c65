"use strict";
// Keeps a story's log up to date while the story is on its way.
async function follow() {
  const section = document.querySelector("[data-follow]");
  if (!section) return;
  try {
    const response = await fetch(location.href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector("main section");
    // Replaced only when something happened, so that nobody's focus is lost for nothing.
    if (fresh && fresh.querySelector(".log").innerHTML + fresh.querySelector(".stage").innerHTML
        !== section.querySelector(".log").innerHTML + section.querySelector(".stage").innerHTML) {
      section.replaceWith(fresh);
    }
  } catch {
    // The web server is being restarted: the next round finds it.
  }
  setTimeout(follow, 2000);
}
setTimeout(follow, 2000);
