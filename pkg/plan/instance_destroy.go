package plan

import "time"

// stragglerGrace lets finalizers that do their work in time do it.
const stragglerGrace = 15 * time.Second

// Remnant is a child of an instance that is not gone yet.
type Remnant struct {
	// Text names it, and the finalizers that keep it.
	Text string
	// Straggler: a run that was deleted and only a finalizer of others keeps.
	Straggler bool
}

// LetGo says whether an instance goes although something of it is left. Only
// runs may be: their rights and their ServiceAccount are gone, and what the
// steps made, the guest too, is collected when the instance is. Named says that
// a condition has told people of them.
//
//	nothing left                          go
//	anything but stragglers               wait
//	stragglers, not named or below 15 s   wait
//	stragglers                            go
func LetGo(left []Remnant, named bool, deleted, now time.Time) bool {
	for _, r := range left {
		if !r.Straggler {
			return false
		}
	}
	return len(left) == 0 || (named && now.Sub(deleted) >= stragglerGrace)
}
