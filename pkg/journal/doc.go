// Package journal appends events to campaigns and reads them back.
package journal
