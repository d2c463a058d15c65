/* The review desk. Everything works without this script, too. */
"use strict";

(() => {
    const languages = document.documentElement.lang || undefined;

    /* A form is sent once; whoever comes back to the page may send it again. */

    const release = () => {
        for (const form of document.querySelectorAll("form[data-stephooks-sent]")) {
            delete form.dataset.stephooksSent;
            for (const button of form.querySelectorAll("[aria-disabled]")) {
                button.removeAttribute("aria-disabled");
                if (button.dataset.stephooksLabel) {
                    button.textContent = button.dataset.stephooksLabel;
                    delete button.dataset.stephooksLabel;
                }
            }
        }
    };

    document.addEventListener("submit", (event) => {
        const form = event.target;
        if (!form.matches("[data-stephooks-once]")) {
            return;
        }
        if (form.dataset.stephooksSent) {
            event.preventDefault();
            return;
        }
        form.dataset.stephooksSent = "yes";
        for (const button of form.querySelectorAll("button[type=submit]:not([hidden])")) {
            // Not `disabled`: a disabled button's value would not be sent.
            button.setAttribute("aria-disabled", "true");
        }
        const pressed = event.submitter;
        if (pressed && pressed.dataset.stephooksBusy) {
            pressed.dataset.stephooksLabel = pressed.textContent;
            pressed.textContent = pressed.dataset.stephooksBusy;
        }
    });

    window.addEventListener("pageshow", release);

    /* Keys only lead to a button; none presses it. */

    const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || isTyping(event.target)) {
            return;
        }
        const keys = document.getElementById("stephooks-keys");
        if (!keys || keys.open) {
            return;
        }
        if (event.key === "?") {
            event.preventDefault();
            keys.showModal();
        } else if (event.key === "a" || event.key === "r") {
            const button = document.querySelector(`[data-stephooks-key="${event.key}"]`);
            if (button) {
                event.preventDefault();
                button.focus();
            }
        }
    });

    /* How far away a deadline is. Not a live region: nobody wants it read out. */

    const UNITS = [
        ["day", 86400],
        ["hour", 3600],
        ["minute", 60],
    ];

    const refresh = () => {
        const words = new Intl.RelativeTimeFormat(languages, { numeric: "always" });
        for (const place of document.querySelectorAll("[data-stephooks-until]")) {
            const seconds = (new Date(place.dataset.stephooksUntil) - Date.now()) / 1000;
            const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) || ["second", 1];
            place.textContent = `(${words.format(Math.trunc(seconds / size), unit)})`;
        }
    };

    setInterval(refresh, 30000);

    /* Copying what was recorded. */

    document.addEventListener("DOMContentLoaded", () => {
        for (const button of document.querySelectorAll("[data-stephooks-copy]")) {
            button.hidden = !navigator.clipboard;
        }
    });

    document.addEventListener("click", async (event) => {
        const button = event.target.closest("[data-stephooks-copy]");
        if (button) {
            await navigator.clipboard.writeText(document.getElementById(button.dataset.stephooksCopy).textContent);
            button.textContent = button.dataset.stephooksDone;
        }
    });

    /* On paper everything is unfolded. */

    window.addEventListener("beforeprint", () => {
        for (const folded of document.querySelectorAll(".stephooks details:not([open])")) {
            folded.open = true;
            folded.dataset.stephooksFolded = "yes";
        }
    });

    window.addEventListener("afterprint", () => {
        for (const unfolded of document.querySelectorAll("details[data-stephooks-folded]")) {
            unfolded.open = false;
            delete unfolded.dataset.stephooksFolded;
        }
    });
})();
