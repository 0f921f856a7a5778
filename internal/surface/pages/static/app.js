// The one script: live updates, times, keys. Everything else works without it.
"use strict";

(() => {
	const root = document.documentElement;
	root.classList.add("scripted");

	const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* private windows may refuse */ } };
	const recall = (key) => { try { return localStorage.getItem(key); } catch { return null; } };

	// Times: the server writes UTC; here they become local if that is wished for, and say how long ago they are.
	const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
	const words = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });
	let local = recall("tidemark.times") === "local";

	const ago = (seconds) => {
		const [unit, size] = units.find(([, n]) => Math.abs(seconds) >= n) || units[3];
		return words.format(Math.trunc(seconds / size), unit);
	};
	const two = (n) => String(n).padStart(2, "0");
	const localText = (at) => {
		const zone = -at.getTimezoneOffset();
		const offset = `${zone < 0 ? "−" : "+"}${two(Math.floor(Math.abs(zone) / 60))}:${two(Math.abs(zone) % 60)}`;
		return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${offset}`;
	};
	// The text of a time stays while it is part of a selection.
	const setText = (e, text) => {
		const s = getSelection();
		if (e.textContent !== text && (!s || s.isCollapsed || !s.containsNode(e, true))) e.textContent = text;
	};
	const showTimes = (within) => {
		for (const time of within.querySelectorAll("time[datetime]")) {
			const at = new Date(time.dateTime);
			const text = time.querySelector(".at");
			const relative = time.querySelector(".rel");
			if (Number.isNaN(at.getTime())) continue;
			if (text) {
				text.dataset.utc ??= text.textContent;
				setText(text, local ? localText(at) : text.dataset.utc);
				time.title = local ? text.dataset.utc : localText(at);
			}
			if (relative) setText(relative, ago((at - Date.now()) / 1000));
		}
	};
	const zone = document.getElementById("zone");
	const showZone = () => {
		zone?.setAttribute("aria-pressed", String(local));
		showTimes(document);
	};
	zone?.addEventListener("click", () => {
		local = !local;
		remember("tidemark.times", local ? "local" : "utc");
		showZone();
	});
	showZone();
	setInterval(() => showTimes(document), 1000);

	// Typed confirmations: the button waits for the right words; the server checks them too. Forms come and go with live updates.
	const check = (box) => { box.form.querySelector("button[type=submit]").disabled = box.value.trim() !== box.dataset.confirm; };
	const arm = (within) => { for (const box of within.querySelectorAll("input[data-confirm]")) check(box); };
	document.addEventListener("input", (e) => { if (e.target.matches("input[data-confirm]")) check(e.target); });
	arm(document);

	// Live updates: the stream says that something changed, the page is read again, and the parts marked data-live become like the new ones.
	const button = document.getElementById("live");
	const state = document.getElementById("live-state");
	let paused = recall("tidemark.live") === "paused";
	let stream = null;
	let reading = false;
	let again = false;

	const say = (word, text) => {
		if (!button) return;
		button.dataset.liveState = word;
		button.setAttribute("aria-pressed", String(word === "paused"));
		if (state) state.textContent = text;
	};
	// An update leaves what a person holds: what is focused, selected, opened or filled in. What it leaves is read again
	// when it is let go.
	let left = false;
	const selected = (node) => { const s = getSelection(); return Boolean(s) && !s.isCollapsed && s.containsNode(node, true); };
	const filled = (field) => field.matches("select")
		? [...field.options].some((o) => o.defaultSelected !== o.selected) && [...field.options].some((o) => o.defaultSelected)
		: field.value !== field.defaultValue || field.checked !== field.defaultChecked;
	const opened = "details[open]:not([data-open])";
	const held = (node) => {
		if (selected(node)) return true;
		if (node.nodeType !== Node.ELEMENT_NODE) return false;
		return node.contains(document.activeElement) || node.matches(opened) || node.querySelector(opened) !== null
			|| [node, ...node.querySelectorAll("*")].some((e) => e.matches("input:not([type=hidden]), select, textarea") && filled(e));
	};
	const remove = (node) => { if (held(node)) left = true; else node.remove(); };
	// An element is known by its id, a row by its key or its link.
	const keyOf = (node) => {
		if (node.nodeType !== Node.ELEMENT_NODE) return "";
		return node.id || node.dataset.key || (node.matches("li") && node.querySelector("a[href]")?.getAttribute("href")) || "";
	};
	// patch makes an element like the next one. Nodes that are in both stay the same nodes.
	const patch = (old, next) => {
		if (old.nodeType !== Node.ELEMENT_NODE) {
			if (old.data === next.data) return;
			if (selected(old)) left = true; else old.data = next.data;
			return;
		}
		if (old.matches("select, textarea") || old.matches(`form, input, ${opened}`) && held(old)) { left = true; return; }
		for (const { name, value } of [...next.attributes]) {
			if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
		}
		const here = old.classList.contains("here");
		for (const { name } of [...old.attributes]) {
			if (name !== "open" && !next.hasAttribute(name)) old.removeAttribute(name);
		}
		if (here) old.classList.add("here");
		patchChildren(old, next);
	};
	const patchChildren = (old, next) => {
		const places = new Map(); // of next's keys: how many there are
		for (const wanted of next.childNodes) {
			const key = keyOf(wanted);
			if (key) places.set(key, (places.get(key) ?? 0) + 1);
		}
		const kept = new Map(); // old children by key, as many as there are places
		for (const child of [...old.childNodes]) {
			const key = keyOf(child);
			if (!key) continue;
			const same = kept.get(key) ?? [];
			if (same.length < (places.get(key) ?? 0)) kept.set(key, [...same, child]); else remove(child);
		}
		const waits = (child) => Boolean(kept.get(keyOf(child))?.includes(child));
		let at = old.firstChild;
		const drop = () => { const gone = at; at = at.nextSibling; remove(gone); };
		for (const wanted of [...next.childNodes]) {
			const key = keyOf(wanted);
			while (at && keyOf(at) && !waits(at)) at = at.nextSibling; // held, and in no place of next
			let found = null;
			if (key) {
				found = kept.get(key)?.[0] ?? null;
				while (found && at && at !== found && !waits(at)) drop();
				kept.get(key)?.shift();
			} else if (at && !keyOf(at) && at.nodeName === wanted.nodeName) {
				found = at;
			}
			if (!found) { old.insertBefore(document.adoptNode(wanted), at); continue; }
			if (found === at) at = at.nextSibling; else if (!held(found)) old.insertBefore(found, at);
			patch(found, wanted);
		}
		while (at) drop();
	};
	// Between the press and the release of a button nothing moves, nor while the pointer is on its way to its target.
	let pressed = false;
	let moved = -Infinity;
	const released = () => setTimeout(() => { pressed = false; });
	addEventListener("pointerdown", () => { pressed = true; }, true);
	for (const name of ["pointerup", "pointercancel"]) addEventListener(name, released, true);
	addEventListener("blur", released); // of the window
	addEventListener("pointermove", (e) => { moved = performance.now(); if (e.buttons === 0) pressed = false; }, { passive: true });
	const rest = async () => {
		const end = performance.now() + 3000;
		while (pressed || (performance.now() - moved < 300 && performance.now() < end)) {
			await new Promise((done) => { setTimeout(done, 50); });
		}
	};
	const refresh = async () => {
		if (reading) { again = true; return; }
		reading = true;
		try {
			const answer = await fetch(location.href, { headers: { "X-Tidemark-Live": "1" }, credentials: "same-origin", redirect: "error" });
			if (!answer.ok) throw new Error(String(answer.status));
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
			await rest();
			if (paused) return;
			left = false;
			for (const part of document.querySelectorAll("[data-live]")) {
				const next = fresh.getElementById(part.id);
				if (!next) continue;
				patch(part, next);
				showTimes(part);
				arm(part);
			}
			say("live", "Live");
		} catch {
			say("lost", "Not live");
		} finally {
			reading = false;
			if (again) { again = false; setTimeout(refresh, 1000); }
		}
	};
	let letGo = 0;
	const readAgain = () => {
		if (!left || paused) return;
		clearTimeout(letGo);
		letGo = setTimeout(refresh, 250);
	};
	for (const name of ["selectionchange", "focusout", "toggle", "change"]) document.addEventListener(name, readAgain, true);
	const connect = () => {
		if (!button || stream || !document.querySelector("[data-live]")) return;
		stream = new EventSource(button.dataset.stream);
		stream.addEventListener("open", () => say("live", "Live"));
		stream.addEventListener("error", () => say("lost", "Not live"));
		stream.addEventListener("marks", refresh);
	};
	const disconnect = () => { stream?.close(); stream = null; };
	const showLive = () => {
		if (!button) return;
		if (!document.querySelector("[data-live]")) { button.hidden = true; return; }
		if (paused) { disconnect(); say("paused", "Paused"); return; }
		say("lost", "Connecting");
		connect();
	};
	button?.addEventListener("click", () => {
		paused = !paused;
		remember("tidemark.live", paused ? "paused" : "live");
		showLive();
		if (!paused) refresh();
	});
	document.addEventListener("visibilitychange", () => {
		if (paused) return;
		if (document.hidden) disconnect(); else { showLive(); refresh(); }
	});
	addEventListener("pagehide", disconnect);
	showLive();

	// The slider's number follows the hand. Letting go reads the page as it was then, and puts the parts marked data-as-of
	// in place of the old ones: the slider stays, and so does the focus on it. If that fails, the page is loaded anew.
	const slide = document.querySelector("input[type=range][data-slide]");
	let sliding = null;
	const slideTo = async () => {
		sliding?.abort();
		sliding = new AbortController();
		const { signal } = sliding;
		const query = new URLSearchParams(new FormData(slide.form));
		query.delete("slide");
		query.delete("was");
		query.set("seq", slide.value);
		const address = `${slide.form.getAttribute("action")}?${query}`;
		try {
			const answer = await fetch(address, { headers: { "X-Tidemark-Live": "1" }, credentials: "same-origin", redirect: "error", signal });
			if (!answer.ok) throw new Error(String(answer.status));
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
			if (signal.aborted) return;
			for (const part of document.querySelectorAll("[data-as-of]")) {
				const next = document.adoptNode(fresh.getElementById(part.id));
				if (part.hasAttribute("aria-live")) part.replaceChildren(...next.childNodes); else part.replaceWith(next);
				showTimes(next);
			}
			history.replaceState(null, "", address);
		} catch {
			if (!signal.aborted) slide.form.requestSubmit();
		}
	};
	let settle = 0;
	slide?.addEventListener("input", () => { document.getElementById(slide.dataset.slide).value = slide.value; });
	slide?.addEventListener("change", () => { clearTimeout(settle); settle = setTimeout(slideTo, 150); });

	// Keys.
	const dialog = document.getElementById("keys");
	document.getElementById("help")?.addEventListener("click", () => dialog.showModal());
	const move = (by) => {
		const rows = [...document.querySelectorAll("main [data-rows] tbody tr, main ol[data-rows] > li")].filter((row) => row.querySelector("a[href]"));
		if (rows.length === 0) return;
		let at = rows.findIndex((row) => row.contains(document.activeElement));
		if (at < 0) at = rows.findIndex((row) => row.classList.contains("here"));
		at = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
		for (const row of document.querySelectorAll(".here")) row.classList.remove("here");
		rows[at].classList.add("here");
		rows[at].querySelector("a[href]").focus({ preventScroll: true });
		rows[at].scrollIntoView({ block: "nearest" });
	};
	document.addEventListener("keydown", (e) => {
		if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || dialog?.open) return;
		if (e.target.matches("input:not([type=range]):not([type=checkbox]):not([type=radio]), select, textarea")) {
			if (e.key === "Escape") e.target.blur();
			return;
		}
		switch (e.key) {
		case "/": document.getElementById("find")?.focus(); document.getElementById("find")?.select(); break;
		case "j": move(1); break;
		case "k": move(-1); break;
		case "?": dialog?.showModal(); break;
		default: return;
		}
		e.preventDefault();
	});
})();
