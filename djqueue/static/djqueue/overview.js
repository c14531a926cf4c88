/* Refresh the parts of the overview that have changed, while the page is visible. */
"use strict";

(() => {
    const parts = document.getElementById("djq-parts");
    const status = document.getElementById("djq-status");
    const button = document.getElementById("djq-pause");
    const interval = 1000 * Number(parts.dataset.refresh);
    const soon = 1000 * Number(parts.dataset.soon);
    const longest = 60000;
    let paused = false, ended = false, failures = 0, timer = null, loading = false;

    function say(text) {
        if (status.textContent !== text) status.textContent = text;
    }

    function plan(delay) {
        clearTimeout(timer);
        timer = paused || ended || document.hidden ? null : setTimeout(refresh, delay);
    }

    /* What the reader has done to the page: open details, focus, and how far boxes are scrolled. */
    function keep(section) {
        const active = document.activeElement;
        const alike = section.contains(active) ? focusable(section, active) : [];
        return {
            open: [...section.querySelectorAll("details[id][open]")].map(one => one.id),
            left: [...section.querySelectorAll(".djq-scroll")].map(one => one.scrollLeft),
            focus: alike.length ? { like: active, place: alike.indexOf(active) } : null,
        };
    }

    function restore(section, kept) {
        for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
        section.querySelectorAll(".djq-scroll").forEach((one, place) => { one.scrollLeft = kept.left[place] || 0; });
        if (kept.focus) focusable(section, kept.focus.like)[kept.focus.place]?.focus({ preventScroll: true });
    }

    /* The elements of a section that are the same link, button or box as this one. */
    function focusable(section, like) {
        const same = ["href", "name", "value", "class"];
        return [...section.querySelectorAll(like.tagName)].filter(
            one => same.every(name => one.getAttribute(name) === like.getAttribute(name)));
    }

    function isInUse() {
        const selection = document.getSelection();
        const selects = selection && !selection.isCollapsed && parts.contains(selection.anchorNode);
        return selects || parts.querySelector("button:active, a:active") !== null;
    }

    function swap(html) {
        const fresh = new DOMParser().parseFromString(html, "text/html");
        const before = document.getElementById("djq-attention")?.dataset.count;
        const top = window.scrollY;
        for (const section of fresh.querySelectorAll("section[id]")) {
            const old = document.getElementById(section.id);
            if (!old) continue;
            const kept = keep(old);
            old.replaceWith(section);
            restore(section, kept);
        }
        if (window.scrollY !== top) window.scrollTo(window.scrollX, top);
        const after = document.getElementById("djq-attention")?.dataset.count;
        say(before !== after ? status.dataset.attention.replace("%s", after) : "");
    }

    function seen() {
        const sections = [...parts.querySelectorAll("section[id]")];
        return sections.map(one => `${one.id.replace("djq-", "")}:${one.dataset.version}`).join(",");
    }

    async function refresh() {
        if (loading) return;
        loading = true;
        try {
            const answer = await fetch(`?fragment=1&seen=${seen()}`, {
                credentials: "same-origin", redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(30000),
            });
            if (answer.type === "opaqueredirect" || answer.status === 403) {
                ended = true;
                say(status.dataset.ended);
                return;
            }
            if (!answer.ok) throw new Error(answer.status);
            const html = await answer.text();
            failures = 0;
            if (paused) return;
            if (isInUse()) say("");
            else swap(html);
            plan(parts.querySelector("[data-suspect]") ? soon : interval);
        } catch {
            failures += 1;
            const delay = Math.min(longest, interval * 2 ** failures);
            say(status.dataset.silent.replace("%s", Math.round(delay / 1000)));
            plan(delay);
        } finally {
            loading = false;
        }
    }

    button.hidden = false;
    button.addEventListener("click", () => {
        paused = !paused;
        button.textContent = paused ? button.dataset.resume : button.dataset.pause;
        say(paused ? status.dataset.paused : "");
        if (paused) plan(0);
        else refresh();
    });
    document.addEventListener("visibilitychange", () => {
        if (document.hidden) plan(0);
        else if (!paused && !ended) refresh();
    });
    plan(interval);
})();
