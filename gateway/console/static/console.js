// The console's one script. Every page works without it. With it:
//
//  1. Live: /console/events says that something changed; the page is fetched again, and what
//     differs is replaced in place, by id. Rows are never added, moved or taken away under the
//     reader: new ones are counted on a button. What somebody types into is left alone.
//  2. Ages are counted on.
//  3. Keys: / j k Enter n d g ? Esc.
//
// All markup comes from the server, which escaped it; nothing is put together here.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const say = (text) => { const e = $("say"); if (e) e.textContent = text; };
  const liveText = (text) => { const e = $("live"); if (e) e.textContent = text; };

  // --- 1. live ---------------------------------------------------------------------------
  const address = document.body.dataset.events;
  let source = null, timer = 0, running = false, again = false, fresh = null;
  const was = new WeakMap(); // what a live element said when it was last replaced

  const rows = (root) => [...root.querySelectorAll("[data-list] [data-row]")];

  // here is this page's address, and on the attention page the rows in sight, so that the
  // server tells what became of those that need nobody any more.
  function here() {
    const url = new URL(location.href);
    url.hash = "";
    url.searchParams.delete("done");
    if (document.body.dataset.here === "attention") {
      url.searchParams.delete("keep");
      for (const row of rows(document).slice(0, 100)) url.searchParams.append("keep", row.id.slice(2));
    }
    return url;
  }

  function busy(element) {
    const active = document.activeElement;
    return element.contains(active) && active.matches("input, textarea, select");
  }

  function dirty(element) {
    return [...element.querySelectorAll("input, textarea, select")].some((f) =>
      f.type === "radio" || f.type === "checkbox" ? f.checked !== f.defaultChecked :
        f.tagName === "SELECT" ? [...f.options].some((o) => o.selected !== o.defaultSelected) :
          f.type !== "hidden" && f.value !== f.defaultValue);
  }

  // replace puts the new content into the old element; open details stay open, and focus
  // stays on the link or button that had it.
  function replace(old, now) {
    const opened = [...old.querySelectorAll("details")].map((d) => d.open);
    const held = old.contains(document.activeElement) ? document.activeElement : null;
    const mark = held && (held.id ? "#" + CSS.escape(held.id) : held.getAttribute("href") ? `[href="${CSS.escape(held.getAttribute("href"))}"]` : "");
    old.className = now.className;
    old.replaceChildren(...document.importNode(now, true).childNodes);
    old.querySelectorAll("details").forEach((d, i) => { d.open = opened[i] || d.open; });
    if (mark) { const again = old.querySelector(mark); if (again) again.focus({preventScroll: true}); }
  }

  function settle(next) {
    let changed = 0;
    for (const old of document.querySelectorAll("[data-live][id]")) {
      const now = next.getElementById(old.id);
      if (!now || busy(old)) continue;
      const news = text(now);
      if ((was.get(old) ?? text(old)) === news) continue;
      replace(old, now);
      was.set(old, news);
      if (old.matches("[data-row]")) { changed++; old.classList.add("changed"); }
    }
    for (const old of document.querySelectorAll("[data-guard][id]")) {
      const now = next.getElementById(old.id);
      if (now && now.dataset.guard === old.dataset.guard) continue;
      if (now && !dirty(old) && !busy(old)) {
        replace(old, now);
        old.dataset.guard = now.dataset.guard;
      } else {
        const stale = old.querySelector(".stale");
        if (stale && stale.hidden) { stale.hidden = false; say("The receipt changed while you were here."); }
      }
    }
    const known = new Set(rows(document).map((r) => r.id));
    const added = rows(next).filter((r) => !known.has(r.id)).length;
    fresh = added ? next : null;
    const button = $("fresh");
    if (button) {
      button.hidden = !added;
      button.textContent = added ? `${added} new, show` : "";
    }
    const n = [changed ? `${changed} updated` : "", added ? `${added} new` : ""].filter(Boolean).join(", ");
    if (n) say(n + ".");
    const read = next.getElementById("read-at");
    if (read && $("read-at")) $("read-at").textContent = read.textContent;
  }

  // text is what an element says, without what only counts on.
  function text(element) {
    const copy = element.cloneNode(true);
    copy.querySelectorAll("time[data-rel]").forEach((t) => { t.textContent = ""; });
    copy.querySelectorAll("details").forEach((d) => d.removeAttribute("open"));
    copy.classList.remove("changed", "new");
    return copy.className + copy.innerHTML;
  }

  function show() {
    if (!fresh) return;
    const known = new Set(rows(document).map((r) => r.id));
    for (const list of document.querySelectorAll("[data-list]")) {
      const now = fresh.getElementById(list.id);
      if (now) list.replaceChildren(...document.importNode(now, true).childNodes);
    }
    fresh = null;
    $("fresh").hidden = true;
    const added = rows(document).filter((r) => !known.has(r.id));
    added.forEach((r) => r.classList.add("new"));
    const first = added[0] && added[0].querySelector("[data-open]");
    if (first) first.focus();
  }

  async function refresh() {
    if (running) { again = true; return; }
    running = true;
    try {
      const answer = await fetch(here(), {headers: {Accept: "text/html"}, credentials: "same-origin", cache: "no-store"});
      if (answer.redirected && new URL(answer.url).pathname.endsWith("/login")) { location.reload(); return; }
      if (answer.ok || answer.status < 500) settle(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the stream, or the next turn of the clock, asks again */ }
    running = false;
    if (again) { again = false; schedule(); }
  }

  function schedule() {
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  }

  // A browser keeps few connections to one host, so a page that nobody looks at gives its own back.
  function connect() {
    if (source || document.hidden) return;
    source = new EventSource(address);
    source.onopen = () => { liveText("Live."); schedule(); }; // what came before the stream, or in a gap of it
    source.onerror = () => liveText("No live updates at the moment.");
    source.addEventListener("change", schedule);
    source.addEventListener("end", () => location.reload());
  }

  if (address) {
    connect();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { if (source) source.close(); source = null; return; }
      connect();
      schedule();
    });
    setInterval(() => { if (!document.hidden) schedule(); }, 20000); // breakers, and what the stream missed
    const button = $("fresh");
    if (button) button.addEventListener("click", show);
  }

  // --- 2. ages ---------------------------------------------------------------------------
  function span(ms) {
    const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
    for (let i = 0; i < units.length; i++) {
      const n = Math.floor(ms / units[i][0]);
      if (!n) continue;
      const rest = i + 1 < units.length ? Math.floor((ms % units[i][0]) / units[i + 1][0]) : 0;
      return `${n} ${units[i][1]}` + (rest ? ` ${rest} ${units[i + 1][1]}` : "");
    }
    return "0 s";
  }

  setInterval(() => {
    const now = Date.now();
    for (const t of document.querySelectorAll("time[data-rel]")) {
      const d = Date.parse(t.dateTime) - now;
      const s = span(Math.abs(d));
      const text = t.dataset.rel === "age" ? s : d > 0 ? "in " + s : t.dataset.rel === "soon" ? "now" : s + " ago";
      if (t.textContent !== text) t.textContent = text;
    }
  }, 1000);

  // --- 3. keys ---------------------------------------------------------------------------
  let chord = 0;

  function move(by) {
    const links = [...document.querySelectorAll("[data-row] [data-open]")];
    if (!links.length) return;
    const row = document.activeElement.closest("[data-row]");
    const at = row ? links.findIndex((l) => row.contains(l)) : by > 0 ? -1 : links.length;
    const to = links[Math.min(Math.max(at + by, 0), links.length - 1)];
    to.focus();
    to.closest("[data-row]").scrollIntoView({block: "nearest"});
  }

  document.addEventListener("keydown", (e) => {
    const typing = e.target.matches("input:not([type=radio]), textarea, select");
    if (e.key === "Escape" && typing) { e.target.blur(); return; }
    if (typing || e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
    if (chord && Date.now() - chord < 1500) {
      chord = 0;
      const to = {a: "attention", p: "approvals", t: "tools", o: "overview"}[e.key];
      if (to) { location.href = "/console/" + to; return; }
    }
    const act = {
      "/": () => { $("q").focus(); $("q").select(); },
      j: () => move(1), k: () => move(-1), n: show, g: () => { chord = Date.now(); },
      d: () => { const s = $("decide"); if (s) { s.scrollIntoView({block: "start"}); (s.querySelector("input[type=radio]:not([disabled]), textarea") || s).focus(); } },
      "?": () => $("keys").showModal(),
    }[e.key];
    if (act) { e.preventDefault(); act(); }
  });
})();
