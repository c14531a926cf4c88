/* Keep what a page shows of its jobs up to date: while they change, and when a bar has reached its end. */
"use strict";

(() => {
    const INTERVAL = 1500;
    let timer;

    async function refresh() {
        clearTimeout(timer);
        try {
            const answer = await fetch(location.href);
            const page = new DOMParser().parseFromString(await answer.text(), "text/html");
            const next = page.getElementById("outcome");
            if (answer.ok && next) document.getElementById("outcome").replaceWith(next);
        } catch {
            // The server does not answer: the next turn tries again.
        }
        plan();
    }

    function plan() {
        if (document.querySelector("#outcome[data-refresh]")) timer = setTimeout(refresh, INTERVAL);
    }

    document.addEventListener("djqueue:finished", refresh);
    plan();
})();
