// Package loop runs the stand-ins: a pass over the whole world after every
// change of it. It knows none of them.
package loop
