package pages

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// palette reads the colours of the stylesheet: the light and the dark one by name.
func palette(t *testing.T) map[string][2]string {
	t.Helper()
	css, err := staticFiles.ReadFile("static/tidemark.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	if n := len(regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`).FindAll(css, -1)); n != 2*len(colours) {
		t.Errorf("the stylesheet has %d colours, %d of them in the palette: put them all there", n, 2*len(colours))
	}
	return colours
}

// luminance is WCAG's relative luminance.
func luminance(colour string) float64 {
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestContrastOfThePalette(t *testing.T) {
	t.Parallel()
	colours := palette(t)
	check := func(least float64, ink string, grounds ...string) {
		t.Helper()
		for _, ground := range grounds {
			for i, scheme := range []string{"light", "dark"} {
				if colours[ink][i] == "" || colours[ground][i] == "" {
					t.Fatalf("%s on %s: one of them is not in the palette", ink, ground)
				}
				if got := contrast(colours[ink][i], colours[ground][i]); got < least {
					t.Errorf("%s: %s on %s has a contrast of %.2f, it must have %.1f", scheme, ink, ground, got, least)
				}
			}
		}
	}
	const text, shape = 4.5, 3.0
	check(text, "ink", "bg", "surface", "raised", "info-bg")
	check(text, "muted", "bg", "surface", "raised", "info-bg")
	check(text, "link", "bg", "surface", "raised", "info-bg")
	check(text, "on-act", "act")
	for _, tone := range []string{"ok", "warn", "bad", "info"} {
		check(text, tone, tone+"-bg")
		check(shape, tone, "surface", "bg")
	}
	check(text, "bad", "surface", "bad-bg", "raised")
	check(shape, "edge", "surface", "bg", "raised")
	check(shape, "focus", "surface", "bg", "raised", "info-bg")
}
