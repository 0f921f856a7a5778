package pages_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// accessRules returns the faults of a page for people who use a screen reader or no mouse.
const accessRules = `(() => {
	const faults = [];
	const name = (e) => e.outerHTML.slice(0, 120);
	const text = (e) => (e.innerText || e.textContent || "").trim() || e.getAttribute("aria-label") || "";
	const shown = (e) => e.checkVisibility();
	if (!document.documentElement.lang) faults.push("html has no lang");
	if (!document.title.trim()) faults.push("the page has no title");
	if (document.querySelectorAll("main").length !== 1) faults.push("there is not one main");
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
		if (![...(e.labels ?? [])].some((l) => text(l)) && !e.getAttribute("aria-label")) faults.push("no label: " + name(e));
	}
	for (const e of document.querySelectorAll("a[href], button, summary")) if (!text(e) && shown(e)) faults.push("no name: " + name(e));
	let level = 0;
	for (const h of document.querySelectorAll("main h1, main h2, main h3, main h4")) {
		const n = Number(h.tagName[1]);
		if (n > level + 1) faults.push("heading of level " + n + " after " + level + ": " + name(h));
		level = n;
	}
	if (document.querySelectorAll("h1").length !== 1) faults.push("there is not one h1");
	for (const t of document.querySelectorAll("table")) {
		if (!t.caption && !t.getAttribute("aria-label")) faults.push("a table has no caption: " + name(t));
		if (!t.tHead) { faults.push("a table has no head: " + name(t)); continue; }
		const columns = t.tHead.rows[0].cells.length;
		for (const r of t.tBodies[0]?.rows ?? []) {
			const n = [...r.cells].reduce((sum, c) => sum + c.colSpan, 0);
			if (n !== columns && r.cells.length > 1) faults.push("a row has " + n + " cells of " + columns + ": " + name(r));
		}
	}
	for (const h of document.querySelectorAll("th")) if (!["col", "row"].includes(h.scope)) faults.push("a header has no scope: " + name(h));
	for (const e of document.querySelectorAll("svg, img")) {
		if (e.getAttribute("aria-hidden") !== "true" && !e.getAttribute("aria-label") && !e.alt) faults.push("a picture has no words: " + name(e));
	}
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push("an id is there twice: " + id);
	for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) faults.push("the order of focus is changed: " + name(e));
	for (const e of document.querySelectorAll(".tag")) {
		if (!text(e)) faults.push("a status has no word: " + name(e));
		if (["none", "", '""'].includes(getComputedStyle(e, "::before").content)) faults.push("a status has no sign: " + name(e));
	}
	for (const e of document.querySelectorAll("time")) if (!/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(e.getAttribute("datetime"))) faults.push("a time is not UTC: " + name(e));
	if (document.querySelector("[style], style, script:not([src])")) faults.push("style or script stands in the page");
	return faults;
})()`

// focusRules returns those of the first focusable elements that do not show the focus.
const focusRules = `(() => {
	const faults = [];
	for (const e of [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")].filter((e) => e.checkVisibility()).slice(0, 40)) {
		e.focus({ focusVisible: true });
		const style = getComputedStyle(e);
		if (document.activeElement !== e || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) faults.push("focus is not seen on " + e.outerHTML.slice(0, 120));
	}
	return faults;
})()`

// narrowRules returns the faults of a page on a phone.
const narrowRules = `(() => {
	const faults = [];
	const wide = document.documentElement.scrollWidth - innerWidth;
	if (wide > 0) faults.push("the page is " + wide + " pixels too wide");
	for (const e of document.querySelectorAll("button, .button, summary, .menu a")) {
		const box = e.getBoundingClientRect();
		if (e.checkVisibility() && box.height > 0 && box.height < 24 && !e.matches(".plain")) faults.push("too small for a finger: " + e.outerHTML.slice(0, 120));
	}
	return faults;
})()`

func testAccess(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	for _, path := range append(everyPage(), "/nowhere") {
		b.do(chromedp.EmulateViewport(1280, 900))
		b.open(path)
		for _, fault := range eval[[]string](b, accessRules) {
			t.Errorf("%s: %s", path, fault)
		}
		b.do(chromedp.EmulateViewport(375, 720))
		for _, fault := range eval[[]string](b, narrowRules) {
			t.Errorf("%s: %s", path, fault)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900))
	for _, path := range []string{"/", "/failed/campaign?projection=scores&campaign=cave-00"} {
		b.open(path)
		for _, fault := range eval[[]string](b, focusRules) {
			t.Errorf("%s: %s", path, fault)
		}
	}
	b.expect(fmt.Sprintf("Failed to load resource: the server responded with a status of 404 (Not Found) (%s/nowhere)",
		w.base))
}
