package journal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawDocument makes JSON that is mostly valid, near the edges that jsonb and encoding/json see differently, and then
// sometimes breaks a byte of it.
func drawDocument(t *rapid.T) []byte {
	var b bytes.Buffer
	writeSpace := func() { b.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\n\t"}).Draw(t, "space")) }
	writeText := func() {
		b.WriteByte('"')
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			b.WriteString(rapid.SampledFrom([]string{
				"a", "hit_points", "eight or more", "é", "😀", "\u2028", "\ufffd", "\x7f", `\"`, `\\`, `\/`, `\n`, `\u0041`,
				`\u00e9`, `\ud83d\ude00`, `\uDBFF\uDFFF`,
				`\uffff`, `\u0000`, `\ud800`, `\udc00`, `\ud800\u0041`, `\ud800\ud800`, `\u12`, `\u12g4`, `\x`, "\x00", "\x1f",
				"\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80",
			}).Draw(t, "part"))
		}
		b.WriteByte('"')
	}
	writeNumber := func() {
		b.WriteString(rapid.SampledFrom([]string{
			"0", "-0", "7", "-12.50", "1e5", "1E+2", "1.5e-7", "-0.0e-3", "123456789012345678901234567890", "0.1e1", "1e131071",
			"1e131072", "1e-16383", "1e-16384", "15e131070",
			"1.5e-16382", "0e400000", "1e400000", "1e99999999999999999999", "01", "1.", ".5", "-", "+1", "1e", "1e+", "0x1",
			"NaN", "Infinity", strings.Repeat("9", 200),
		}).Draw(t, "number"))
	}
	var writeValue func(depth int)
	writeObject := func(depth int) {
		b.WriteByte('{')
		for i := range rapid.IntRange(0, 3).Draw(t, "fields") {
			if i > 0 {
				b.WriteByte(',')
			}
			writeSpace()
			writeText()
			writeSpace()
			b.WriteByte(':')
			writeValue(depth + 1)
		}
		writeSpace()
		b.WriteByte('}')
	}
	writeValue = func(depth int) {
		writeSpace()
		kind := rapid.IntRange(0, 6).Draw(t, "kind")
		switch {
		case kind == 0 && depth < 6:
			writeObject(depth)
		case kind == 1 && depth < 6:
			b.WriteByte('[')
			for i := range rapid.IntRange(0, 3).Draw(t, "items") {
				if i > 0 {
					b.WriteByte(',')
				}
				writeValue(depth + 1)
			}
			b.WriteByte(']')
		case kind == 2:
			writeNumber()
		case kind == 3:
			b.WriteString(rapid.SampledFrom([]string{"true", "false", "null", "nul", "True"}).Draw(t, "word"))
		default:
			writeText()
		}
		writeSpace()
	}
	writeSpace()
	if rapid.IntRange(0, 9).Draw(t, "root") == 0 {
		writeValue(0)
	} else {
		writeObject(0)
	}
	writeSpace()
	document := b.Bytes()
	if len(document) > 0 && rapid.IntRange(0, 3).Draw(t, "broken") == 0 {
		document[rapid.IntRange(0, len(document)-1).Draw(t, "at")] = rapid.SampledFrom([]byte(`{}[],:"\ e1-`)).Draw(t, "with")
	}
	return document
}

// checkAgainstStandardLibrary holds the scanner against encoding/json: what it accepts is valid,
// and what it calls no JSON is not.
func checkAgainstStandardLibrary(t interface{ Fatalf(string, ...any) }, document []byte) {
	_, fault := scanObject(document, 10)
	switch valid := json.Valid(document); {
	case fault.problem == jsonFine && !valid:
		t.Fatalf("accepted %q, which is not JSON", document)
	case fault.problem == jsonSyntax && valid:
		t.Fatalf("called %q no JSON: %s", document, fault.reason(10))
	case fault.problem == jsonFine:
		var object map[string]json.RawMessage
		if err := json.Unmarshal(document, &object); err != nil || object == nil {
			t.Fatalf("accepted %q, which is no object: %v", document, err)
		}
	}
	if fault.offset > len(document) {
		t.Fatalf("the fault of %q is at byte %d, past its end", document, fault.offset)
	}
}

func TestScanObject(t *testing.T) {
	t.Parallel()

	t.Run("agrees with the standard library on what is JSON", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) { checkAgainstStandardLibrary(t, drawDocument(t)) })
	})

	t.Run("names what is wrong and where", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			document string
			problem  jsonProblem
			offset   int
		}{
			{`{}`, jsonFine, 0},
			{` {"a" : [1, -2.5e3, true, null, "\ud83d\ude00"] } `, jsonFine, 0},
			{``, jsonSyntax, 0},
			{`   `, jsonSyntax, 3},
			{`{"a":1`, jsonSyntax, 6},
			{`{"a":1,}`, jsonSyntax, 7},
			{`{"a" 1}`, jsonSyntax, 5},
			{`{"a":01}`, jsonSyntax, 6},
			{`{"a":[1 2]}`, jsonSyntax, 8},
			{`{"a":tru}`, jsonSyntax, 5},
			{`{"a":"` + "\n" + `"}`, jsonSyntax, 6},
			{`{"a":"\q"}`, jsonSyntax, 7},
			{`{} {}`, jsonSyntax, 3},
			{`{"a":"12345678`, jsonSyntax, 14},
			{`[]`, jsonNoObject, 0},
			{` "text"`, jsonNoObject, 1},
			{`null`, jsonNoObject, 0},
			{`-1`, jsonNoObject, 0},
			{`{"a":"12345678` + "\xff" + `"}`, jsonNotUTF8, 14},
			{`{"` + "\xed\xa0\x80" + `":1}`, jsonNotUTF8, 2},
			{`{"a":"\u0000"}`, jsonNUL, 6},
			{`{"a":"\ud800"}`, jsonSurrogate, 6},
			{`{"a":"\ud800\u0041"}`, jsonSurrogate, 6},
			{`{"a":"\udc00\ud800"}`, jsonSurrogate, 6},
			{`{"\ud800 ":1}`, jsonSurrogate, 2},
			{`{"a":1e400000}`, jsonHugeNumber, 5},
			{`{"a":-1e-400000}`, jsonHugeNumber, 5},
			{`{"a":1e` + strings.Repeat("9", 40) + `}`, jsonHugeNumber, 5},
			{`{"a":` + strings.Repeat("9", maxDigitsBefore+1) + `}`, jsonHugeNumber, 5},
			{`{"a":0.` + strings.Repeat("1", maxDigitsAfter+1) + `}`, jsonHugeNumber, 5},
			{strings.Repeat(`{"a":`, 10) + "1" + strings.Repeat("}", 10), jsonFine, 0},
			{strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11), jsonTooDeep, 50},
			{`{"a":` + strings.Repeat("[", 1_000_000), jsonTooDeep, 14},
		} {
			if _, fault := scanObject([]byte(test.document), 10); fault.problem != test.problem || fault.offset != test.offset {
				t.Errorf("%.60q: problem %d at %d (%s), want problem %d at %d", test.document, fault.problem, fault.offset,
					fault.reason(10), test.problem, test.offset)
			}
		}
	})
}

//nolint:paralleltest // it counts the allocations of the whole process
func TestScanObjectAllocatesNothing(t *testing.T) {
	document := benchmarkDocument()
	if n := testing.AllocsPerRun(100, func() { scanObject(document, 128) }); n != 0 {
		t.Errorf("%v allocations for a good document", n)
	}
}

func FuzzScanObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":[1,2.5e3,"\ud83d\ude00",null]}`, `{"a":"\u0000"}`, "{\"\xff\":1}", `[1]`,
		`{"a":1e400000}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) { checkAgainstStandardLibrary(t, document) })
}

// benchmarkDocument is a payload of about 1 KiB.
func benchmarkDocument() []byte {
	return []byte(`{"character_id":"9f4c2a7e-3b61-4f6e-9a55-0d7d6f2b8c11","name":"Åsa the Grey","level":7,"hit_points":{"current":42,"max":58,"temporary":0},` +
		`"abilities":{"strength":12,"dexterity":16,"constitution":14,"intelligence":10,"wisdom":13,"charisma":8},"alive":true,"conditions":["poisoned","prone"],` +
		`"inventory":[{"item":"rope","count":1,"weight":4.5},{"item":"torch","count":12,"weight":0.5},{"item":"ration","count":9,"weight":1.0}],"patron":null,` +
		`"biography":"` + strings.Repeat("Born under a bad sign, she went to sea at twelve. ", 10) + `"}`)
}

func BenchmarkScanObject(b *testing.B) {
	document := benchmarkDocument()
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		scanObject(document, 128)
	}
}

func BenchmarkScanObjectAgainstStandardLibrary(b *testing.B) {
	document := benchmarkDocument()
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		json.Valid(document)
	}
}
