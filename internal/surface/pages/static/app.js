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
	const showTimes = (within) => {
		for (const time of within.querySelectorAll("time[datetime]")) {
			const at = new Date(time.dateTime);
			const text = time.querySelector(".at");
			const relative = time.querySelector(".rel");
			if (Number.isNaN(at.getTime())) continue;
			if (text) {
				text.dataset.utc ??= text.textContent;
				text.textContent = local ? localText(at) : text.dataset.utc;
				time.title = local ? text.dataset.utc : localText(at);
			}
			if (relative) relative.textContent = ago((at - Date.now()) / 1000);
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

	// Live updates: the stream says that something changed, the page is read again, and the parts marked data-live take the place of the old ones.
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
	// A part in which somebody types, chooses or has opened something stays as it is.
	const busy = (part) => part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea, button, summary")
		|| part.querySelector("details[open]:not([data-open])") !== null
		|| [...part.querySelectorAll("input[name=reason]")].some((box) => box.value !== "");
	const refresh = async () => {
		if (reading) { again = true; return; }
		reading = true;
		try {
			const answer = await fetch(location.href, { headers: { "X-Tidemark-Live": "1" }, credentials: "same-origin", redirect: "error" });
			if (!answer.ok) throw new Error(String(answer.status));
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
			if (paused) return;
			for (const part of document.querySelectorAll("[data-live]")) {
				const next = fresh.getElementById(part.id);
				if (!next || busy(part)) continue;
				const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
				const here = [...part.querySelectorAll("tr")].findIndex((row) => row.classList.contains("here"));
				part.replaceWith(document.adoptNode(next));
				showTimes(next);
				arm(next);
				if (here >= 0) next.querySelectorAll("tr")[here]?.classList.add("here");
				if (focused) [...next.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
			}
			say("live", "Live");
		} catch {
			say("lost", "Not live");
		} finally {
			reading = false;
			if (again) { again = false; setTimeout(refresh, 1000); }
		}
	};
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
