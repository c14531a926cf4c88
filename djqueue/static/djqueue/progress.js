/* Keep the bars of {% djqueue_progress %} up to date: also those that are added to the page later. */
"use strict";

(() => {
    if (customElements.get("djqueue-progress")) return;  // loaded twice

    // Milliseconds. A bar is polled often at first, and then after a tenth of the time that it has been shown.
    const SHORTEST = 500, LONGEST = 10000, LONGEST_OFFLINE = 60000, TIMEOUT = 30000;

    class DjqueueProgress extends HTMLElement {
        wake = () => this.plan(0);
        submit = event => {
            if (event.target !== this.part("cancel")) return;
            event.preventDefault();
            this.cancel(event.target);
        };

        connectedCallback() {
            this.shown = Date.now();
            this.failures = 0;
            this.loading = this.expired = this.cancelling = false;
            this.job ??= {
                status: this.dataset.status,
                finished: "finished" in this.dataset,
                cancel_requested: "cancelRequested" in this.dataset,
            };
            this.text ??= textOf(this.job);
            this.addEventListener("submit", this.submit);
            document.addEventListener("visibilitychange", this.wake);
            addEventListener("online", this.wake);
            if (this.job.status === "done" && !isThisPage(this.part("next"))) this.redirect();
            this.plan(SHORTEST);
        }

        disconnectedCallback() {
            clearTimeout(this.timer);
            document.removeEventListener("visibilitychange", this.wake);
            removeEventListener("online", this.wake);
        }

        part(name) {
            return this.querySelector(`[data-part="${name}"]`);
        }

        /* A job that was unknown when the page was rendered may have been committed since. */
        get over() {
            return this.expired || this.job.finished && (this.job.status !== "unknown" || this.polled);
        }

        plan(delay) {
            clearTimeout(this.timer);
            if (this.over || this.loading || document.hidden || !this.isConnected) return;
            this.timer = setTimeout(() => this.poll(), delay * (0.9 + 0.2 * Math.random()));
        }

        async poll() {
            this.loading = true;
            let delay = 0;
            try {
                const answer = await send(this.dataset.url);
                if (!this.isConnected) return;
                if (answer.status === 404 || answer.type === "opaqueredirect") {
                    this.expired = true;
                    this.say("expired");
                    return;
                }
                if (!answer.ok) throw new Error(answer.status);
                const job = await answer.json();
                this.polled = true;
                this.failures = 0;
                this.show(job);
                delay = Math.min(LONGEST, Math.max(SHORTEST, (Date.now() - this.shown) / 10));
            } catch {
                this.failures += 1;
                this.say("offline");
                delay = Math.min(LONGEST_OFFLINE, 2 * SHORTEST * 2 ** this.failures);
            } finally {
                this.loading = false;
                this.plan(delay);
            }
        }

        async cancel(form) {
            if (this.cancelling) return;
            this.cancelling = true;
            this.say("stopping");
            const fields = new URLSearchParams(new FormData(form));
            fields.delete("next");  // the answer is then the state of the job
            try {
                const answer = await send(form.action, { method: "POST", body: fields });
                if (answer.ok) this.show(await answer.json());
                else form.submit();  // the page that follows says what is wrong
            } catch {
                this.say("offline");
            }
            this.cancelling = false;
        }

        show(job) {
            const before = this.job;
            if (before.finished && before.status !== "unknown") return;
            this.job = job;
            this.dataset.status = job.status;
            let text = textOf(job);
            if (text === "unknown" && before.status !== "unknown") text = before.cancel_requested ? "cancelled" : "gone";
            const succeeded = text === "done" || text === "gone";
            this.say(text);
            this.bar(succeeded ? 100 : job.percent);
            this.write("percent", !job.finished && job.progress && job.percent !== null ? `${job.percent}%` : "");
            this.write("message", job.finished ? "" : job.progress?.message ?? "");
            this.part("next")?.toggleAttribute("hidden", !succeeded);
            this.offerCancel(!job.finished && !job.cancel_requested);
            if (!job.finished || before.finished) return;
            this.dispatchEvent(new CustomEvent("djqueue:finished", { bubbles: true, detail: job }));
            if (succeeded) this.redirect();
        }

        /* The texts are templates of the page, so that the project can translate and change them. */
        say(text) {
            const template = this.querySelector(`template[data-text="${text}"]`);
            if (text === this.text || !template) return;
            this.text = text;
            this.part("text")?.replaceChildren(template.content.cloneNode(true));
        }

        bar(percent) {
            const bar = this.querySelector("progress");
            if (bar && percent === null) bar.removeAttribute("value");
            else if (bar) bar.value = percent;
        }

        write(name, text) {
            const part = this.part(name);
            if (part && part.textContent !== text) part.textContent = text;
        }

        /* The focus does not vanish with the button. */
        offerCancel(offered) {
            const form = this.part("cancel");
            if (!offered && form?.contains(document.activeElement)) this.part("text")?.focus();
            form?.toggleAttribute("hidden", !offered);
        }

        redirect() {
            if ("redirect" in this.dataset) location.replace(this.part("next").href);
        }
    }

    function textOf(job) {
        return job.cancel_requested && !job.finished ? "stopping" : job.status;
    }

    function isThisPage(link) {
        return link && link.href.split("#")[0] === location.href.split("#")[0];
    }

    function send(url, options = {}) {
        return fetch(url, {
            credentials: "same-origin", redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(TIMEOUT),
            headers: { Accept: "application/json" }, ...options,
        });
    }

    customElements.define("djqueue-progress", DjqueueProgress);
})();
