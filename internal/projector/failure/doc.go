// Package failure classifies errors: which class they have, and which event or infrastructure is at fault.
package failure
