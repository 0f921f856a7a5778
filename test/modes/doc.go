// Package modes runs the stock worker's own process in every mode.
package modes
