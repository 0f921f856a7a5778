package pages_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// widthRules returns the faults of a page's tables: columns whose text is squeezed, rows of many
// lines, and a page that is much longer than its rows.
const widthRules = `(() => {
	const faults = [];
	const ruler = document.createElement("canvas").getContext("2d");
	let rows = 0;
	for (const cell of document.querySelectorAll("main table.cards tbody > tr > *")) {
		const style = getComputedStyle(cell);
		ruler.font = style.font;
		const width = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
		const least = 8 * ruler.measureText("0").width;
		if (cell.innerText.trim().length >= 8 && width < least) {
			faults.push("the column " + cell.dataset.head + " is " + Math.round(width) + " pixels wide: " + cell.innerText.slice(0, 40));
		}
	}
	for (const row of document.querySelectorAll("main table.cards tbody > tr")) {
		rows++;
		const lines = row.clientHeight / parseFloat(getComputedStyle(row).lineHeight);
		if (lines > 6) faults.push("a row has " + Math.round(lines) + " lines: " + row.innerText.slice(0, 80));
	}
	const most = 2500 + 130 * rows;
	const height = document.documentElement.scrollHeight;
	if (height > most) faults.push("the page is " + height + " pixels high for " + rows + " rows, the limit is " + most);
	const wide = document.documentElement.scrollWidth - innerWidth;
	if (wide > 0) faults.push("the page is " + wide + " pixels too wide");
	return faults.slice(0, 8);
})()`

// testWidths measures the tables on screens of laptops, each with many long texts.
func testWidths(t *testing.T, b *tab, w *world) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position,
			event_id, event_type, status, attempt_count, error_message, first_failed_at, last_failed_at)
		SELECT topic, publisher, 'house/42/order-2026-11-' || n, 1000 + n, true, position, gen_random_uuid(),
			'order_line_was_replaced', status, 12, 'dial tcp 10.0.0.7:9092: connect: connection refused, after '
			|| 'https://broker.example.com/' || repeat('a1b2c3d4', 30) || ' ' || repeat('and it goes on ', 20), now(), now()
		FROM (SELECT * FROM tidemark.parked WHERE holds ORDER BY campaign_id LIMIT 1) AS p, generate_series(1, 50) AS n`,
	); err != nil {
		t.Fatal(err)
	}
	b.logIn(w, auth.Admin)
	for i, path := range everyPage() {
		b.open(path)
		if !eval[bool](b, `document.querySelector("main table.cards") !== null`) {
			continue
		}
		for _, width := range []int64{1280, 1024} {
			b.do(chromedp.EmulateViewport(width, 900))
			b.shot(fmt.Sprintf("%d-%02d", width, i))
			for _, fault := range eval[[]string](b, widthRules) {
				t.Errorf("%s at %d: %s", path, width, fault)
			}
		}
	}
}
