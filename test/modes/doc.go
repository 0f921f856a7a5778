// Package modes runs the stock worker as a process in every mode.
package modes
