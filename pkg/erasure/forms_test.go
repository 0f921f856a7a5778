package erasure_test

import "testing"

// TestWhatHoldsASubject calls the functions that erasures take fields and values out with.
func TestWhatHoldsASubject(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for sql, want := range map[string]string{
		`tidemark.cut('{"a": [{"b": 1}, [{"b": 2, "c": 3}], "x", null]}', '{a,b}')`: `{"a": [{}, [{"c": 3}], "x", null]}`,
		`tidemark.cut('[]', '{a}')`:                          `[]`,
		`tidemark.cut(NULL, '{a}')`:                          ``,
		`tidemark.cut('{"a": null, "c": 1}', '{a,b}')`:       `{"a": null, "c": 1}`,
		`tidemark.cut('{"a": {"b": 1}, "a.b": 2}', '{a,b}')`: `{"a": {}, "a.b": 2}`,

		`tidemark.without('{"a": null, "b": [true, "ann", "Ann Lee", 17, "sold to customer=ann"], "ann": 1}', '{ann,17}')`: `{"a": null, "b": [true, "Ann Lee"]}`,
		`tidemark.without('{"a": ["planted-ann", {"b": "x"}]}', '{planted-ann}', '"erased"')`:                              `{"a": ["erased", {"b": "x"}]}`,
		`tidemark.without(NULL, '{x}')`:   ``,
		`tidemark.without('null', '{x}')`: `null`,
		`tidemark.without('{}', '{}')`:    `{}`,

		`tidemark.holds('customer=ann', '{ann}')`:                         `true`,
		`tidemark.holds('a=b=ann', '{b=ann}')`:                            `true`,
		`tidemark.holds('mail of planted-ann today', '{planted-ann}')`:    `true`,
		`tidemark.holds('mail of planted-anna', '{planted-ann}')`:         `false`,
		`tidemark.holds('PLANTED ANN', '{planted-ann}')`:                  `true`,
		`tidemark.holds('ann-marie', '{ann}')`:                            `false`,
		`tidemark.holds('', '{ann}')`:                                     `false`,
		`tidemark.holds('x', '{}')`:                                       `false`,
		`tidemark.holds('----', '{----}')`:                                `true`,
		`tidemark.holds('abcd----', '{----}')`:                            `false`,
		`tidemark.holds('to Zoë Éa, today', '{"Zoë Éa"}')`:                `true`,
		`tidemark.holds('room (7) of ann.lee@x.org!', '{ann.lee@x.org}')`: `true`,
		`tidemark.holds(NULL, '{ann}')`:                                   ``,

		`tidemark.subject_values('{customer=ann,bob,=x,y=}')::text`: `{=x,ann,bob,customer=ann,x,y=}`,
		`tidemark.subject_values(NULL)::text`:                       `{}`,
	} {
		if got := s.value(`SELECT (` + sql + `)`); got != want {
			t.Errorf("%s is %s, want %s", sql, got, want)
		}
	}
}
