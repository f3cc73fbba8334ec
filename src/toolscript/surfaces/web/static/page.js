// The page works without this: it only answers while one types, and knows keys.

/** Returns the element of a page's HTML that stands where `element` does. */
async function fetched(address, element, signal) {
  const answer = await fetch(address, { signal, headers: { accept: "text/html" } });
  const html = new DOMParser().parseFromString(await answer.text(), "text/html");
  return html.querySelector(element);
}

/** Returns the address of a form's fields, without those that are empty. */
function addressOf(form) {
  const fields = [...new FormData(form)].filter(([, value]) => String(value).trim());
  return `${form.action}?${new URLSearchParams(fields)}`;
}

/** Searches while one types, and moves among the results with the arrow keys. */
class SearchLab extends HTMLElement {
  #timer = 0;
  #running = new AbortController();

  connectedCallback() {
    const form = this.querySelector("form");
    form.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#search(form), 120);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search(form);
    });
    this.addEventListener("keydown", (event) => this.#move(event));
    this.addEventListener("click", (event) => {
      const link = event.target.closest(".unfold");
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.#unfold(link);
    });
  }

  #search(form) {
    if (form.checkValidity()) this.#show(addressOf(form), "#results");
  }

  /** Shows what is found at an address in the place of a part of this element. */
  async #show(address, part) {
    this.#running.abort();
    this.#running = new AbortController();
    try {
      const found = await fetched(address, "search-lab", this.#running.signal);
      if (!found) return void location.assign(address);
      for (const each of [part, ".status"]) {
        const now = this.querySelector(each);
        const then = found.querySelector(each);
        if (then) now.replaceChildren(...then.childNodes);
      }
      history.replaceState(null, "", address);
      document.title = `${this.querySelector("#q").value || "Search"} – toolscript`;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.querySelector(".status").textContent = "The gateway does not answer.";
    }
  }

  /** Unfolds an explanation; the part that had the focus has it afterwards. */
  async #unfold(link, part = ".unfold") {
    const hit = link.closest(".hit");
    await this.#show(link.href, `#${CSS.escape(hit.id)}`);
    hit.querySelector(part).focus();
  }

  #move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const opens = { ArrowRight: "false", ArrowLeft: "true" }[event.key];
    const hit = event.target.closest(".hit");
    if (step && !event.target.matches("select, [type=number]")) {
      const names = [...this.querySelectorAll(".hit .name")];
      const at = hit ? names.indexOf(hit.querySelector(".name")) : -1;
      if (!names.length || (at < 0 && step < 0)) return;
      event.preventDefault();
      (names[Math.min(at + step, names.length - 1)] ?? this.querySelector("#q")).focus();
    } else if (opens && hit && !event.target.closest(".scroll")) {
      const link = hit.querySelector(`.unfold[aria-expanded=${opens}]`);
      if (!link) return;
      event.preventDefault();
      this.#unfold(link, event.target.matches(".name") ? ".name" : ".unfold");
    }
  }
}
customElements.define("search-lab", SearchLab);

/** Shows what has changed in its part of the page, every two seconds, while one looks at it. */
class LivePart extends HTMLElement {
  #timer = 0;

  connectedCallback() {
    if (!this.hasAttribute("still")) this.#timer = setInterval(() => this.#refresh(), 2000);
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
  }

  async #refresh() {
    const used = this.matches(":focus-within, :hover") && !this.querySelector("tbody");
    if (document.hidden || used || !getSelection().isCollapsed) return;
    const found = await fetched(location.href, "live-part").catch(() => null);
    if (!found || found.textContent === this.textContent) return;
    const known = new Set([...this.querySelectorAll("tr[id]")].map((row) => row.id));
    for (const row of found.querySelectorAll("tr[id]")) {
      if (known.size && !known.has(row.id)) row.classList.add("fresh");
    }
    for (const { id } of this.querySelectorAll("details[id][open]")) {
      found.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    }
    const at = document.activeElement;
    const id = at.closest("live-part details")?.id;
    const href = this.contains(at) && at.getAttribute("href");
    this.replaceChildren(...found.childNodes);
    if (id) this.querySelector(`#${CSS.escape(id)} summary`)?.focus();
    if (href) this.querySelector(`[href="${CSS.escape(href)}"]`)?.focus();
  }
}
customElements.define("live-part", LivePart);

document.addEventListener("keydown", (event) => {
  const item = event.target.closest?.(".card");
  const typing = event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey;
  if (item && !typing && /^[ar]$/.test(event.key)) {
    item.querySelector(`[aria-keyshortcuts="${event.key}"]`)?.click();
  }
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey;
  const box = document.querySelector("#q");
  if (event.key === "/" && !typing && box) {
    event.preventDefault();
    box.focus();
    box.select();
  }
});
