// Package fastjson decodes JSON as encoding/json does, only quicker where the target is a struct
// with plain fields: a worker decodes every event it applies, and encoding/json takes most of the
// time that it spends on one.
//
// It has no opinions of its own. What it does not know exactly (an escape, a number with an
// exponent, a field that decodes itself, a mistake) it leaves to encoding/json, and with it the
// outcome and the error. A fuzz test holds the two against each other.
package fastjson
