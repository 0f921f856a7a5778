// Package failure says what errors mean: whose they are, of which class, and of which event.
package failure
