// What spares reloads: forms and links of a page are fetched and put in place, keys press buttons, changes are followed.
// Everything works without it.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const content = () => document.getElementById("content");
  const say = (text) => {
    const place = document.getElementById("said");
    if (place) place.textContent = text;
  };

  // ——— putting a page in place

  let asked = 0;
  const show = async (url, options, push) => {
    const turn = ++asked;
    let answer;
    try {
      answer = await fetch(url, { credentials: "same-origin", ...options });
    } catch {
      say("The server does not answer.");
      return false;
    }
    const kind = answer.headers.get("content-type") || "";
    if (!kind.startsWith("text/html")) {
      location.assign(url);
      return false;
    }
    const text = await answer.text();
    if (turn !== asked) return false;
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("content");
    if (!fresh || !page.querySelector("header.bar")) {
      location.assign(answer.url);
      return false;
    }
    put(page, fresh);
    if (push && answer.url !== location.href) history.pushState(null, "", answer.url);
    return true;
  };

  // What was opened, typed and scrolled stays as it was.
  const put = (page, fresh) => {
    const old = content();
    const open = new Map([...old.querySelectorAll("details[data-name]")].map((one) => [one.dataset.name, one.open]));
    const typed = [...old.querySelectorAll("input[type=text][id], input[type=search][id]")].filter((one) => one === document.activeElement);
    const active = document.activeElement && document.activeElement !== document.body ? address(document.activeElement) : null;
    for (const one of fresh.querySelectorAll("details[data-name]")) {
      if (open.has(one.dataset.name)) one.open = open.get(one.dataset.name);
    }
    for (const one of typed) {
      const same = fresh.querySelector(`#${CSS.escape(one.id)}`);
      if (same) same.value = one.value;
    }
    const scrolled = [...old.querySelectorAll(".scroll, pre.output")].map((one) => [one.scrollLeft, one.scrollTop]);
    old.replaceChildren(...document.importNode(fresh, true).childNodes);
    old.querySelectorAll(".scroll, pre.output").forEach((one, place) => {
      if (scrolled[place]) [one.scrollLeft, one.scrollTop] = scrolled[place];
    });
    document.title = page.title;
    if (page.body.dataset.live) document.body.dataset.live = page.body.dataset.live;
    else delete document.body.dataset.live;
    if (active) {
      const again = active();
      if (again) again.focus({ preventScroll: true });
    }
    prepare();
    follow();
    const why = old.querySelector(".notice, .why");
    if (why) say(why.textContent);
  };

  // How the same element is found in the new page.
  const address = (element) => {
    if (element.id) return () => document.getElementById(element.id);
    if (element.name && element.value) {
      const { name, value } = element;
      return () => content().querySelector(`[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);
    }
    const href = element.getAttribute("href");
    return () => (href ? content().querySelector(`a[href="${CSS.escape(href)}"]`) : null);
  };

  // ——— forms and links

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.ask && !window.confirm(form.dataset.ask)) {
      event.preventDefault();
      return;
    }
    if (!content() || !content().contains(form) || form.matches(".plain") || !document.querySelector("header.bar")) return;
    event.preventDefault();
    const data = new FormData(form, event.submitter);
    form.setAttribute("aria-busy", "true");
    const done = () => form.removeAttribute("aria-busy");
    if (form.method === "get") {
      show(`${form.action}?${new URLSearchParams(data)}`, {}, true).finally(done);
      return;
    }
    const body = form.enctype === "multipart/form-data" ? data : new URLSearchParams(data);
    show(form.action, { method: "POST", body }, true).finally(done);
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const href = link.getAttribute("href");
    if (!content() || !content().contains(link)) return;
    const url = new URL(href, location.href);
    if (url.origin !== location.origin || url.pathname !== location.pathname || !url.search) return;
    event.preventDefault();
    const at = url.searchParams.get("at");
    const there = document.getElementById("goto");
    if (at && there && link.closest(".timeline, .writes, .hops")) {
      const data = new URLSearchParams(new FormData(there));
      data.set("moment", at);
      const watch = url.searchParams.get("watch");
      if (watch) data.set("watch", watch);
      show(there.action, { method: "POST", body: data }, true).then((shown) => shown && reveal());
      return;
    }
    show(url.href, {}, true).then((shown) => shown && at && reveal());
  });

  const reveal = () => {
    const chosen = document.getElementById("chosen");
    if (!chosen) return;
    const place = chosen.getBoundingClientRect();
    if (place.top < 0 || place.bottom > innerHeight) chosen.scrollIntoView({ block: "center" });
  };

  addEventListener("popstate", () => show(location.href, {}, false));

  // ——— keys

  document.addEventListener("keydown", (event) => {
    const keys = document.getElementById("keys");
    if (!keys || !keys.checked || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const button = content().querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!button || button.disabled) return;
    event.preventDefault();
    button.click();
  });
  document.addEventListener("change", (event) => {
    if (event.target.id !== "keys") return;
    try {
      localStorage.setItem("hindcast-keys", event.target.checked ? "on" : "off");
    } catch {}
  });

  // ——— following

  let source = null;
  let followed = "";
  let last = 0;
  let waiting = null;
  const follow = () => {
    const url = document.body.dataset.live || "";
    if (url === followed) return;
    if (source) source.close();
    followed = url;
    source = url ? new EventSource(url) : null;
    if (source) source.addEventListener("change", refresh);
  };
  const refresh = () => {
    if (waiting) return;
    if (document.hidden) {
      waiting = "hidden";
      return;
    }
    // Not more than once a second: each look counts against the key's limits.
    const pause = Math.max(0, 1000 - (Date.now() - last));
    waiting = setTimeout(() => {
      waiting = null;
      last = Date.now();
      if (!document.querySelector("form[aria-busy]")) show(location.href, {}, false);
    }, pause);
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || waiting !== "hidden") return;
    waiting = null;
    refresh();
  });
  addEventListener("pagehide", () => source && source.close());

  // ——— dropping files

  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      const place = event.target.closest && event.target.closest(".drop");
      if (!place) return;
      event.preventDefault();
      place.classList.toggle("over", name === "dragover");
      const input = place.querySelector("input[type=file]");
      if (name === "drop" && input && event.dataTransfer.files.length) {
        input.files = event.dataTransfer.files;
        place.querySelector("form").requestSubmit();
      }
    });
  }

  const prepare = () => {
    const keys = document.getElementById("keys");
    if (!keys) return;
    try {
      keys.checked = localStorage.getItem("hindcast-keys") !== "off";
    } catch {}
  };
  prepare();
  follow();
  // An addition in the background is looked at until it is done.
  setInterval(() => {
    if (!document.hidden && content() && content().querySelector("[data-goes-on]")) show(location.href, {}, false);
  }, 2000);
})();
