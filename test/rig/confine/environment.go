package confine

import "strings"

// Environment joins lists of NAME=VALUE. The last value of a name wins and is
// the only one left: with two, programs disagree about which counts.
func Environment(lists ...[]string) []string {
	place := map[string]int{}
	var joined []string
	for _, list := range lists {
		for _, variable := range list {
			name, _, _ := strings.Cut(variable, "=")
			if i, ok := place[name]; ok {
				joined[i] = variable
				continue
			}
			place[name] = len(joined)
			joined = append(joined, variable)
		}
	}
	return joined
}
